"""status, health, logs: show how agents are."""
