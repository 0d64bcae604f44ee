"""Which process is at the other end of the control socket, by the kernel's account (SO_PEERCRED, unix(7)).

Knows sockets and HTTP connections; nothing of requests, and not by what processes are told apart.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import socket
import struct
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, override

from pallas_common.http.server import BoundedProtocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

Standing = Literal["outside", "inside", "gateway"]
"""A process is the gateway; comes from a worker or from the gateway; or is any other."""

_SO_PEERPIDFD = 77
"""Of asm-generic/socket.h, from Linux 6.5 on; Python has no name for it."""

_CREDENTIALS = struct.Struct("3i")


class Peer(NamedTuple):
    """A process that has connected, as it was at that moment."""

    pid: int
    uid: int
    gid: int

    def __str__(self) -> str:
        """`root (uid 0, pid 42)`."""
        return f"{self._name or 'somebody'} (uid {self.uid}, pid {self.pid})"

    @property
    def user(self) -> str:
        """Name of its user, or the number of one that has none."""
        return self._name or f"uid {self.uid}"

    @property
    def _name(self) -> str | None:
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return None


def peer_of(connection: socket.socket) -> Peer | None:
    """The process that has connected to a unix socket; None for one of another kind."""
    if connection.family != socket.AF_UNIX:
        return None
    return Peer(
        *_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    )


def standing_of(connection: socket.socket, peer: Peer, standing: Callable[[Peer], Standing]) -> Standing:
    """How the process stands that has connected: `inside` if it has ended, so that its number may be another's now.

    Args:
        standing: of a process that is there.
    """
    if peer.pid == 0:  # of a process that is in none of the namespaces below ours
        return "outside"
    pidfd = None
    with contextlib.suppress(OSError):
        pidfd = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    try:
        found = standing(peer)
        return "inside" if pidfd is not None and _has_ended(pidfd) else found
    except OSError:  # no descriptor is left to look with
        return "inside"
    finally:
        if pidfd is not None:
            os.close(pidfd)


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _outside(_peer: Peer) -> Standing:
    return "outside"


class PeerProtocol(BoundedProtocol):
    """HTTP/1.1 whose requests know their peer: `request.state.peer`, and how it stands: `request.state.standing`."""

    standing: ClassVar[Callable[[Peer], Standing]] = staticmethod(_outside)

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        peer = peer_of(connection)
        standing = "outside" if peer is None else standing_of(connection, peer, type(self).standing)
        self.app_state = {**self.app_state, "peer": peer, "standing": standing}


def guarded(standing: Callable[[Peer], Standing]) -> type[PeerProtocol]:
    """The protocol with this way of telling how processes stand, which is asked at each connection."""
    return type("GuardedProtocol", (PeerProtocol,), {"standing": staticmethod(standing)})
