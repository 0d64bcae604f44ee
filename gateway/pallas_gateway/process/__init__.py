"""The gateway's process: its identity, its parts, its life."""
