"""A process's end of what connects it to the supervisor that has started it."""
