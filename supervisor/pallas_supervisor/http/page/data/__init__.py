"""What the status page shows: gathered, kept for a quarter of an hour."""
