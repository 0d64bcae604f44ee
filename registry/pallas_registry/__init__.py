"""What is deployed, as facts, and the catalogue of it."""
