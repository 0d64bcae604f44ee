"""The MCP servers that the agent uses."""
