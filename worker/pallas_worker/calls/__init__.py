"""One call of the agent, and how many run at a time."""
