"""The service manager's copies of our listening sockets, which outlive us: a restart refuses no connection.

Knows which sockets the manager holds and under which names; nothing of who accepts on them.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_supervisor.sockets.activation import serving

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_supervisor.sockets.activation import Inheritance
    from pallas_supervisor.sockets.systemd import Notifier

_PREFIX = "port-"

_log = get_logger("pallas.supervisor.socket_store")


class SocketStore:
    """What the manager holds of what this supervisor listens on.

    Args:
        notifier: the way to the manager.
        inheritance: what the manager handed down.
    """

    def __init__(self, notifier: Notifier, inheritance: Inheritance) -> None:
        self._notifier = notifier
        self._unclaimed = list(inheritance.sockets)
        self._stored = {each.name for each in inheritance.sockets if _is_ours(each.name)}
        """Names under which the manager keeps sockets that a supervisor once gave it."""
        self._activated: set[int] = set()
        """Ports that the manager holds for itself, for a `.socket` unit."""
        self._keeps = False
        for name in inheritance.others:
            if name:
                notifier.remove(name)

    def holds(self, port: int) -> bool:
        """Whether the port's socket outlives this process: connections may wait in it for the next one."""
        return self._keeps or port in self._activated

    def take(self, family: int, address: tuple[object, ...]) -> socket.socket | None:
        """The inherited socket of this address, the caller's from now on; None if there is none."""
        found = serving(self._unclaimed, family, address)
        if found is None:
            for each in self._unclaimed:  # bound to another address, it would be in the way of a new one
                if _is_ours(each.name) and _port(each.listener) == address[1]:
                    _deafen(each.listener)
            return None
        self._unclaimed.remove(found)
        if not _is_ours(found.name):
            self._activated.add(_port(found.listener))
        return found.listener

    def drop_unclaimed(self) -> None:
        """Close what no agent has taken; of what an earlier supervisor has left, the port is free from now on."""
        for each in self._unclaimed:
            if _is_ours(each.name):
                _deafen(each.listener)
            else:
                which = f"{each.name or 'the .socket unit'} listens on port {_port(each.listener)}, which no agent has"
                _log.warning(f"{which}; clients wait there for nobody: remove it from the unit")
            each.listener.close()
        wanted = self._stored - {each.name for each in self._unclaimed}
        for name in sorted(self._stored - wanted):
            self._notifier.remove(name)
        self._stored = wanted
        self._unclaimed.clear()

    async def open(self) -> None:
        """Find out whether the manager keeps what it is given."""
        self._keeps = await self._notifier.keeps_descriptors()

    def keep(self, listeners: Iterable[socket.socket]) -> None:
        """Have the manager hold exactly these, and nothing that was given to it before."""
        if not self._keeps:
            return
        wanted = {f"{_PREFIX}{_port(each)}": each for each in listeners if _port(each) not in self._activated}
        for name in sorted(self._stored - wanted.keys()):
            self._notifier.remove(name)
        self._stored &= wanted.keys()
        for name in sorted(wanted.keys() - self._stored):
            if self._notifier.store(name, wanted[name].fileno()):
                self._stored.add(name)


def _deafen(listener: socket.socket) -> None:
    """Free the port at once, though the manager keeps its copy until it has read that it should not."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)


def _is_ours(name: str) -> bool:
    return name.startswith(_PREFIX)


def _port(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port
