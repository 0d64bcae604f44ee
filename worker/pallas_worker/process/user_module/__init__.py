"""The user's module: its import, and what goes wrong in it."""
