"""What is done on the agents' sockets while no worker serves: answered, watched, or left alone."""
