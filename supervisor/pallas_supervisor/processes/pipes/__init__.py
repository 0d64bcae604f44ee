"""The pipes between the supervisor and its workers."""
