"""Hostile bytes on every input of a real supervisor: where they come from, how they get in, what has to hold."""
