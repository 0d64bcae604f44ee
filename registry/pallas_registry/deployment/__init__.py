"""`agents.yaml`: its facts and its strict reader."""
