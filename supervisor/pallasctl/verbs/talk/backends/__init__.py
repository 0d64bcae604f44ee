"""With whom a chat talks: the gateway, a worker, or an MCP endpoint elsewhere, all of one shape."""
