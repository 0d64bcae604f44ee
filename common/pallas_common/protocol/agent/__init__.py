"""What an agent is, as several processes have to know it: its settings, its source, its definition, its answers."""
