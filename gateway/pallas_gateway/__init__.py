"""One authenticated door to all agents of a deployment."""
