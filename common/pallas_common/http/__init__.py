"""HTTP on listening sockets: connections with bounds, names that clients may use, answers."""
