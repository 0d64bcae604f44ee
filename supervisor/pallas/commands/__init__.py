"""The verbs of `pallas`: what prepares a deployment, and what runs it in the background."""
