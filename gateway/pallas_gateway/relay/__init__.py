"""Connections to other servers of MCP and to workers: pools, children, calls that go on as they came."""
