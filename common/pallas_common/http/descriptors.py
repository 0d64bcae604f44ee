"""How many descriptors this process may have open, and what clients may take of them.

Knows limits of the process (getrlimit(2)); nothing of what the descriptors are for.
"""

from __future__ import annotations

import errno
import fcntl
import resource
import struct
import termios

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of accept(2) that say that the process or the system has no room, for any socket (errno)."""

LEAST = 8
"""Connections that a port may hold however low the limit is."""

_UNLIMITED = 65_536
"""What counts as the limit where there is none."""


def share_of_descriptors(part: float, at_most: int) -> int:
    """How many connections one kind of port may hold: that part of the limit of today, but not more than `at_most`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _UNLIMITED if soft == resource.RLIM_INFINITY else soft
    return max(LEAST, min(int(limit * part), at_most))


def has_unread(descriptor: int) -> bool:
    """Whether a socket has bytes that have not been read (FIONREAD, ioctl_tty(2)); not on a closed one."""
    if descriptor < 0:
        return False
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, struct.pack("i", 0)))
    return bool(count)
