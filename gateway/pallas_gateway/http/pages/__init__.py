"""Pages for people, in a browser: logging in, talking to agents."""
