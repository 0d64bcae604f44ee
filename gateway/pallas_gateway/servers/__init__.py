"""Servers of MCP, each as a principal sees it."""
