"""Declared agents, models, secrets, servers and projects: applied, shown, changed, deleted."""
