"""The `pallas` command: reads the configuration, puts the supervisor's parts together, runs them."""
