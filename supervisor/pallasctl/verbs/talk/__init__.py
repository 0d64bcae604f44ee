"""ask, chat, connect: talk to agents, and let other programs talk to them."""
