"""Declared things: read from documents, kept as files, and what a deployment becomes by them."""
