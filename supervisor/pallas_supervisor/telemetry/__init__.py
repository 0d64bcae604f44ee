"""Series and spans of the supervisor itself."""
