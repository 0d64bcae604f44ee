"""Threads, their messages and turns, over REST."""
