"""Room on a disk that may be full."""
