"""What is deployed, as facts: configuration, catalogue, log format and the worker protocol."""

__version__ = "0.3.0"
