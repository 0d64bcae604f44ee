"""The MCP conformance suite: run, read, and compared with the list of what is expected to fail."""
