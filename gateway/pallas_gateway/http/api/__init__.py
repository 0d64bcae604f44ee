"""`/api/v1`: the REST API, a file for each noun."""
