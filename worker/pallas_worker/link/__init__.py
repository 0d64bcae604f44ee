"""The worker's end of what connects it to the supervisor."""
