"""Child processes: how they are started, which descriptors they get, and how they end with all that they started."""
