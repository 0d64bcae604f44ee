"""The process that imports fast-agent once and forks the workers, and the worker that it forks ahead."""
