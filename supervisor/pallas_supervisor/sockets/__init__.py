"""Listening sockets, what is done on them while no worker serves, and systemd's sockets and notices."""
