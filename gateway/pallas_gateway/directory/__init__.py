"""What the supervisor knows, mirrored: agents, projects, resources, and where calls go."""
