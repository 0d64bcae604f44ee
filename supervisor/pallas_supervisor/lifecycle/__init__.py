"""The life of one agent as pure tables: states, events, effects."""
