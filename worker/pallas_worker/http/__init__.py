"""The worker's port: MCP, chat completions, metrics, liveness."""
