"""One file for each verb: about agents, their state, and the configuration."""
