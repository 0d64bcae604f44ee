"""What the gateway keeps: rows in SQLite or PostgreSQL, by the same code."""
