"""The agents of a deployment: the engine that moves them, and what people ask of them."""
