"""MCP servers that run as a command: what they say as messages, and what they say besides."""
