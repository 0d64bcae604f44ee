"""The subreaper between the supervisor and what it starts, and what an earlier supervisor has left."""
