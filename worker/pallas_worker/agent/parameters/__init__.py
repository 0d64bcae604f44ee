"""What becomes of a call's parameters with the provider of the model that answers."""
