"""How a process writes the metrics files of its slot."""
