"""The management server: all agents of the deployment, for people."""
