"""Which process is at the other end of the control socket, by the kernel's account (SO_PEERCRED, unix(7)).

Knows sockets and HTTP connections; nothing of requests.
"""

from __future__ import annotations

import pwd
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple, override

from pallas_common.http.server import BoundedProtocol

if TYPE_CHECKING:
    import asyncio

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


class PeerProtocol(BoundedProtocol):
    """HTTP/1.1 whose requests know their peer: `request.state.peer`."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        peer = peer_of(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, "peer": peer}
