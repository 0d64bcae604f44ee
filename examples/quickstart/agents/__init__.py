"""The agents of the quickstart, one module each."""
