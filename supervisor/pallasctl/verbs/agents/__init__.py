"""Verbs that move agents."""
