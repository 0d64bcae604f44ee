"""Verbs about the configuration."""
