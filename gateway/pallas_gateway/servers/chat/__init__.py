"""Talking to agents by MCP: turns of threads as tools, one's own threads as resources."""
