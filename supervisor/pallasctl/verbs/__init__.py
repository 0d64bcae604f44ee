"""One file for each verb, in groups."""
