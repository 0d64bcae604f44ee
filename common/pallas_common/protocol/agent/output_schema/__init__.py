"""JSON Schemas that answers have to fit: read with bounds, and answers checked against them."""
