"""The agent's health: what it needs, probed at intervals."""
