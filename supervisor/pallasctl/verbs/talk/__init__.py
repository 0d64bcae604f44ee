"""ask, connect, and chat in a room of its own: talk to agents, and let other programs talk to them."""
