"""The gateway's process, supervised like a worker: the engine that steps it, and what is around."""
