"""A client of HTTP/1.1 on connections of our own, kept alive and bounded; knows nothing of MCP."""
