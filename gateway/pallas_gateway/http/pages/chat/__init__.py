"""The pages to talk to agents."""
