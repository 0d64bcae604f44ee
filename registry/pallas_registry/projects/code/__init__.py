"""What the files of a project define: FastAgents in Python sources and factories, and agent cards."""
