"""MCP over Streamable HTTP in both eras of the protocol; knows no agent."""
