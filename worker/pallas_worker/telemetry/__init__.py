"""The worker's series and spans, and what ties records to calls."""
