"""The control API on the unix socket: its routes, logs and events as streams, and who asks."""
