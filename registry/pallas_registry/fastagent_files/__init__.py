"""Our part of fast-agent's own files."""
