"""The life of a worker process, from fork to exit status."""
