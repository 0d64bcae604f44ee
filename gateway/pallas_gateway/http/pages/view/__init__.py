"""The pages as HTML. Pure."""
