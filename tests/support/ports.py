"""Ports of 127.0.0.1 for servers that other processes start later.

They lie below those that the kernel gives out, so that no connection or socket of a test takes one meanwhile, and
test processes that run at a time look in different places first.
"""

from __future__ import annotations

import itertools
import os
import socket

PORTS = range(10_240, 24_000)

_SHARE = 1009
"""How far apart processes begin whose numbers follow each other."""

_begin = os.getpid() * _SHARE % len(PORTS)
_ports = itertools.cycle([*PORTS[_begin:], *PORTS[:_begin]])


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment, all different, and not given out before."""
    return list(itertools.islice(filter(_is_free, itertools.islice(_ports, len(PORTS))), count))


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
