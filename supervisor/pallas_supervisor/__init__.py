"""Processes: states, engine, launching, sockets, logs, metrics, health and the control API."""
