"""OpenAI's API at the gateway: chat completions and models, over all agents that somebody may run."""
