"""What the agents of a deployment listen on: a port for one that has one, else a unix socket that its name leads to.

Knows which agent listens where, and which cannot; nothing of who accepts. Ports are taken all or none, since one that
is taken is for the user to settle. Of unix sockets nobody else knows: one that cannot be had concerns its agent alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.http.descriptors import share_of_descriptors
from pallas_registry.environment.runtime_directory import agent_socket
from pallas_supervisor.sockets.listeners import (
    ORPHAN_PATIENCE,
    PortsTakenError,
    close_listeners,
    connectable,
    open_listeners,
)
from pallas_supervisor.sockets.unix_sockets import (
    UnusablePathError,
    listen_at,
    make_directory,
    remove_leftovers,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from pallas_supervisor.sockets.mcp_probe import Address
    from pallas_supervisor.sockets.socket_store import SocketStore


OPEN_DESCRIPTORS = Path("/proc/self/fd")

SHARE, MOST = 3 / 4, 65_536
"""What all that is open may take of the descriptors before a unix socket is refused: the rest is for what runs."""

_NO_ROOM = (
    "no descriptor is left for its unix socket; allow this process more (`ulimit -Hn`, `LimitNOFILE=` of a unit) and "
    "start it again"
)


class NoListenerError(PermissionError):
    """There is no socket for the agent, and to try again at once does not help; the text says why."""


class AgentSockets:
    """Opens what agents listen on.

    Args:
        bind: address of the ports.
        directory: the runtime directory, whose lock is ours.
        store: what the service manager keeps, and has handed down.
        binds: address of each port that is no agent's, by what it is for, where that is another one.
    """

    def __init__(
        self, bind: str, directory: Path, store: SocketStore, binds: Mapping[str, str] | None = None
    ) -> None:
        self._bind = bind
        self._binds = binds or {}
        self._directory = directory
        self._store = store
        self.refused: dict[str, str] = {}
        """Agents for which no unix socket could be had when it was tried last, and why."""

    def open(
        self, ports: Mapping[str, int | None], *, patience: float = ORPHAN_PATIENCE
    ) -> dict[str, socket.socket]:
        """Listen for these agents; one of `refused` has no socket in what is returned.

        Args:
            ports: agent → its port, or None.
            patience: seconds to wait, blocking, for a port that an orphan still holds.

        Raises:
            PortsTakenError: with all ports that are taken; then nothing is listened on.
        """
        numbers = {name: port for name, port in ports.items() if port is not None}
        opened = self._open_ports(numbers, patience)
        for name in numbers:
            self.refused.pop(name, None)
        without = [name for name, port in ports.items() if port is None]
        if without:
            opened |= self._open_paths(without)
        return {name: opened[name] for name in ports if name in opened}

    def open_again(self, name: str) -> socket.socket:
        """Listen for an agent of `refused`.

        Raises:
            NoListenerError: it cannot be had this time either.
        """
        if (opened := self._open_paths([name]).get(name)) is None:
            raise NoListenerError(self.refused[name])
        return opened

    def agent_removed(self, name: str) -> None:
        """Forget the agent."""
        self.refused.pop(name, None)

    def remove_leftovers(self, names: Mapping[str, int | None]) -> None:
        """Remove the socket files that belong to none of these agents."""
        wanted = [self.path(name) for name, port in names.items() if port is None]
        remove_leftovers(self.path("").parent, wanted)

    def path(self, name: str) -> Path:
        """Path of the unix socket that the agent has where it has no port."""
        return agent_socket(self._directory, name)

    def address(self, name: str, port: int | None) -> Address:
        """Where the agent is reached from this machine."""
        return str(self.path(name)) if port is None else (connectable(self._bind), port)

    def outlives(self, listener: socket.socket) -> bool:
        """Whether the socket is there for the next supervisor, too: it must not be shut down."""
        return self._store.holds(listener)

    def close(self, listeners: Mapping[str, socket.socket]) -> None:
        """Close our copies at the supervisor's end; what the service manager keeps stays as it is."""
        for each in listeners.values():
            if each.fileno() != -1 and self._store.keeps(each):
                each.close()
            else:
                close_listeners([each])

    def _open_ports(self, numbers: Mapping[str, int], patience: float) -> dict[str, socket.socket]:
        opened: dict[str, socket.socket] = {}
        problems = []
        for bind in dict.fromkeys((self._bind, *self._binds.values())):
            here = {name: port for name, port in numbers.items() if self._binds.get(name, self._bind) == bind}
            try:
                opened |= open_listeners(bind, here, patience=patience, inherited=self._store.take)
            except PortsTakenError as error:
                problems.append(str(error))
        if problems:
            close_listeners(opened.values())
            raise PortsTakenError("\n".join(problems))
        return opened

    def _open_paths(self, names: list[str]) -> dict[str, socket.socket]:
        opened: dict[str, socket.socket] = {}
        try:
            make_directory(self.path("").parent)
        except UnusablePathError as error:
            self.refused |= dict.fromkeys(names, str(error))
            return opened
        open_already = len(list(OPEN_DESCRIPTORS.iterdir()))
        room = share_of_descriptors(SHARE, MOST) - open_already
        for name in names:
            if len(opened) >= room:
                self.refused[name] = _NO_ROOM
                continue
            try:
                opened[name] = listen_at(self.path(name), self._store.take_path)
                self.refused.pop(name, None)
            except UnusablePathError as error:
                self.refused[name] = str(error)
        return opened
