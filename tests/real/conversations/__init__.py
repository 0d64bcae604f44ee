"""Clients of others in conversations with agents: chat interfaces, SDKs, curl, an `EventSource`, MCP clients."""
