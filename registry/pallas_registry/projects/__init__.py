"""What a project of fast-agent holds, found by reading its files, and the deployment that follows from it."""
