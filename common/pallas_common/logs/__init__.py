"""The one log format and the loggers that write it."""
