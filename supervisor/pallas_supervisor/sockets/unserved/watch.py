"""Sees that a connection waits on a listening socket, without accepting it. Knows nothing of states."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class SocketWatch:
    """Watches some of many listening sockets; what is watched costs nothing until somebody connects.

    Args:
        waits: called with the name of a socket on which a connection waits. It is not watched any more then: a socket
            stays readable for as long as nobody accepts, and would keep the loop busy. Watched again, it tells again.
    """

    def __init__(self, waits: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._waits = waits
        self._watched: dict[str, socket.socket] = {}
        self._retired = False

    @property
    def watched(self) -> set[str]:
        """The names of the sockets that are watched."""
        return set(self._watched)

    def switch(self, name: str, listener: socket.socket, *, on: bool) -> None:
        """Begin or stop to watch this socket, which nobody else may read from meanwhile."""
        if self._retired or (known := self._watched.get(name)) is (listener if on else None):
            return
        if known is not None:
            self.drop(name)
        if on:
            self._watched[name] = listener
            self._loop.add_reader(listener, self._tell, name)

    def drop(self, name: str) -> None:
        """Do not watch what has this name any more."""
        if (listener := self._watched.pop(name, None)) is not None:
            self._loop.remove_reader(listener)

    def retire(self) -> None:
        """Never watch anything again, whatever `switch` is called with: connections wait for somebody else."""
        for name in self.watched:
            self.drop(name)
        self._retired = True

    def _tell(self, name: str) -> None:
        self.drop(name)
        self._waits(name)
