"""Servers of MCP made of others: an agent's compositor, the virtual server of an agent, the server of a project."""
