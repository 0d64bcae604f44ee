"""Threads and their messages: rows, and what turns do with them, each function on a connection."""
