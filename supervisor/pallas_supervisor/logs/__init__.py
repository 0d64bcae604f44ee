"""Log lines from workers and from here: collected, kept, written, followed."""
