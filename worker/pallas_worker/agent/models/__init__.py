"""LLMs and their providers: settings, keys, capabilities, failures."""
