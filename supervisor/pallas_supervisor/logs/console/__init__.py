"""What `pallas` says to people: in a terminal the story of its agents, elsewhere one line for each record."""
