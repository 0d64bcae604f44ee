"""Where the gateway calls agents, their servers and projects: what only its process is told."""
