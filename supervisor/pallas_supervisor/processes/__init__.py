"""Worker processes: launched, watched, signalled, reaped."""
