"""A client of the supervisor's control API."""
