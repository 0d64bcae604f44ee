"""The catalogue of agents as MCP clients read it."""
