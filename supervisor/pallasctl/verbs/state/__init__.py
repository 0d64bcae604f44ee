"""Verbs that show how agents are."""
