"""The kinds of resources: what each says, and how it is read."""
