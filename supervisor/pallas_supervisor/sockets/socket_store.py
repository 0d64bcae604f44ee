"""The service manager's copies of our listening sockets, which outlive us: a restart refuses no connection.

Knows which sockets the manager holds and under which names; nothing of who accepts on them. A port has a name of its
own. Unix sockets share `UNIX_NAMES` names, for there may be thousands of them: a message may carry 253 descriptors of
one name, the manager's socket takes no more than some hundred messages at a time, and all names have to fit into one
environment variable of 128 KiB when they are handed down. A name is taken back with all that it holds, so that what
stays of it is given again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.terminal_text import terminal_line
from pallas_supervisor.sockets.activation import serving
from pallas_supervisor.sockets.unix_sockets import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_supervisor.sockets.activation import Inheritance, Inherited
    from pallas_supervisor.sockets.systemd import Notifier

UNIX_NAMES = 256

_OURS = re.compile(r"port-.+|u-[0-9a-f]{2}")

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
        self._by_path = {path_of(each.listener): each for each in reversed(inheritance.sockets)}
        self._stored: dict[str, set[int]] = {}
        """Names under which the manager keeps sockets that a supervisor once gave it, and the sockets' inodes."""
        for each in inheritance.sockets:
            if _is_ours(each.name):
                self._stored.setdefault(each.name, set()).add(_inode(each.listener))
        self._activated: set[int | str] = set()
        """Ports and paths that the manager holds for itself, for a `.socket` unit."""
        self._keeps = False
        for name in inheritance.others:
            if name:
                notifier.remove(name)

    def holds(self, listener: socket.socket) -> bool:
        """Whether the socket outlives this process: connections may wait in it for the next one."""
        return self._keeps or _place(listener) in self._activated

    def keeps(self, listener: socket.socket) -> bool:
        """Whether the manager has the socket already, so that the next process gets it even now."""
        stored = self._stored.get(_name(listener), ())
        return _inode(listener) in stored or _place(listener) in self._activated

    def take(self, family: int, address: tuple[object, ...]) -> socket.socket | None:
        """The inherited socket of this address, the caller's from now on; None if there is none."""
        found = serving(self._unclaimed, family, address)
        if found is None:
            for each in self._unclaimed:  # bound to another address, it would be in the way of a new one
                if _is_ours(each.name) and _place(each.listener) == address[1]:
                    _deafen(each.listener)
            return None
        return self._claim(found)

    def take_path(self, path: str) -> socket.socket | None:
        """The inherited socket that is bound to this path, the caller's from now on; None if there is none."""
        found = self._by_path.pop(path, None)
        return None if found is None else self._claim(found)

    def _claim(self, found: Inherited) -> socket.socket:
        self._unclaimed.remove(found)
        if not _is_ours(found.name):
            self._activated.add(_place(found.listener))
        return found.listener

    def drop_unclaimed(self) -> None:
        """Close what no agent has taken; of what an earlier supervisor has left, the port is free from now on."""
        given_back = set()
        for each in self._unclaimed:
            if _is_ours(each.name):
                _deafen(each.listener)
                given_back.add(each.name)
            else:
                place = _place(each.listener)
                where = f"on port {place}" if isinstance(place, int) else f"at {terminal_line(place)}"
                which = f"{each.name or 'the .socket unit'} listens {where}, which no agent has"
                _log.warning(f"{which}; clients wait there for nobody: remove it from the unit")
            each.listener.close()
        for name in sorted(given_back):
            self._notifier.remove(name)
            del self._stored[name]
        self._unclaimed.clear()
        self._by_path.clear()

    async def open(self) -> None:
        """Find out whether the manager keeps what it is given."""
        self._keeps = await self._notifier.keeps_descriptors()

    def keep(self, listeners: Iterable[socket.socket]) -> None:
        """Have the manager hold exactly these, and nothing that was given to it before."""
        if not self._keeps:
            return
        wanted: dict[str, dict[int, int]] = {}
        for each in listeners:
            if _place(each) not in self._activated:
                wanted.setdefault(_name(each), {})[_inode(each)] = each.fileno()
        for name in sorted(self._stored):
            if not self._stored[name] <= wanted.get(name, {}).keys():
                self._notifier.remove(name)
                del self._stored[name]
        for name in sorted(wanted):
            stored = self._stored.get(name, set())
            missing = wanted[name].keys() - stored
            if missing and self._notifier.store(name, [wanted[name][inode] for inode in missing]):
                self._stored[name] = stored | missing


def _deafen(listener: socket.socket) -> None:
    """Free the port at once, though the manager keeps its copy until it has read that it should not."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)


def _is_ours(name: str) -> bool:
    return _OURS.fullmatch(name) is not None


def _name(listener: socket.socket) -> str:
    place = _place(listener)
    if isinstance(place, int):
        return f"port-{place}"
    return f"u-{int.from_bytes(hashlib.sha256(os.fsencode(place)).digest()[:4]) % UNIX_NAMES:02x}"


def _place(listener: socket.socket) -> int | str:
    """The port, or the path."""
    if (path := path_of(listener)) is not None:
        return path
    port: int = listener.getsockname()[1]
    return port


def _inode(listener: socket.socket) -> int:
    """Tells the socket from every other one, whoever holds a copy."""
    return os.fstat(listener.fileno()).st_ino
