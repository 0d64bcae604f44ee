"""Turns of conversations: asked once, kept in the store as they go on, followed by whoever may."""
