"""What an agent and the gateway have in common as clients of MCP servers."""
