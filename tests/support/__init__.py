"""Real fleets for the tests: a folder with agents, a `pallas` process on it, its control socket and log."""
