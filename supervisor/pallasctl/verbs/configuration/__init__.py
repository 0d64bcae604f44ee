"""check, reload: read the configuration."""
