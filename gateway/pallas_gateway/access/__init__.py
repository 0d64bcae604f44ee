"""Who may do what, how often, and what is written down about it."""
