"""Templates of instructions, filled for each call: what is true of the day, and files that may change."""
