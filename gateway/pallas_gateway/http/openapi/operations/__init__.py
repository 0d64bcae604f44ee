"""The table itself, a file for each noun."""
