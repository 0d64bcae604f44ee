"""What resources of the management server hold."""
