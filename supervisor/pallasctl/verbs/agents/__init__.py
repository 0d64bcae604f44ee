"""start, stop, restart, wait: bring agents to a goal."""
