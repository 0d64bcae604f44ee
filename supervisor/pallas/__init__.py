"""The `pallas` command."""
