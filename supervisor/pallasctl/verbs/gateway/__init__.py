"""gateway: the process through which all agents are reached."""
