"""The operator's command line: an HTTP client of the supervisor's control socket."""
