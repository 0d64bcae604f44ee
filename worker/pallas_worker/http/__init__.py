"""The worker's port: MCP, metrics, liveness."""
