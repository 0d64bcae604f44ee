"""Chat completions over HTTP: requests in, answers whole or as a stream of events."""
