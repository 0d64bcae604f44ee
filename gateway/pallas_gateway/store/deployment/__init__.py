"""Whose store it is: the deployment's instance, and its operator's token; each in a row, and in the state directory."""
