"""An agent made from its definition, where another one has a module."""
