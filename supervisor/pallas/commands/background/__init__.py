"""A supervisor in the background: started, followed until its agents are up, found again, and stopped."""
