"""Secrets taken out of what is written: those known by value, and whatever looks like one."""
