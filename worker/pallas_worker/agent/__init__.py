"""The served agent: the runtime, and one instance for each call."""
