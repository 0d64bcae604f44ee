"""Listening sockets, who answers on them while no worker does, and systemd's sockets and notices."""
