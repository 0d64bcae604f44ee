"""One agent served over MCP, and the zygote that forks such workers."""
