"""Between the interface's messages and fast-agent's."""
