"""What the gateway tells of its work: metrics and spans."""
