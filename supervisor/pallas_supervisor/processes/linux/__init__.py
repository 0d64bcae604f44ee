"""What Linux offers for processes: spawning, signals, `/proc`, control groups."""
