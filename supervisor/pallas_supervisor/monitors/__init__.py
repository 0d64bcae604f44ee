"""Watching workers: heartbeats and memory."""
