"""Ports to listen on, all or none of them, and how listening sockets are closed.

Knows addresses and sockets; nothing of who accepts on them.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from pallas_common.terminal_text import terminal_line
from pallas_supervisor.sockets.unix_sockets import BACKLOG, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

type Address = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
"""As getaddrinfo(3) gives it."""

type Inherited = Callable[[int, Address], socket.socket | None]
"""Finds the socket that a service manager handed down for this family and address."""

ORPHAN_PATIENCE = 5.0
"""Seconds that a new supervisor waits for workers of a killed one to let go of a port."""


class PortsTakenError(Exception):
    """Some ports cannot be listened on; the message has one line for each, with the holder."""


class NoSuchAddressError(PortsTakenError):
    """No interface of this machine has the address."""


def open_listeners(
    bind: str,
    ports: Mapping[str, int],
    *,
    patience: float = ORPHAN_PATIENCE,
    inherited: Inherited = lambda _family, _address: None,
) -> dict[str, socket.socket]:
    """Listen on every port, or on none.

    Args:
        bind: an IPv4 or IPv6 address, or a name.
        ports: what each port is for → the port.
        patience: seconds to wait, blocking, for a port that an orphan still holds.
        inherited: asked first for a socket that is bound already.

    Raises:
        NoSuchAddressError: no interface of this machine has the address.
        PortsTakenError: with all ports that are taken, and by whom.
    """
    opened: dict[str, socket.socket] = {}
    problems: list[str] = []
    deadline = time.monotonic() + patience
    for purpose, port in ports.items():
        try:
            adopted = _adopt(bind, port, inherited)
            opened[purpose] = _listen_patiently(bind, port, deadline) if adopted is None else adopted
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                close_listeners(opened.values())
                raise NoSuchAddressError(
                    f"no interface of this machine has the address {bind}; write one that it has (`ip address` lists "
                    f"them), or {'::' if ':' in bind else '0.0.0.0'} for all of them"
                ) from error
            problems.append(_explain(bind, port, purpose, error))
    if problems:
        close_listeners(opened.values())
        raise PortsTakenError("\n".join(problems))
    return opened


def close_listeners(listeners: Iterable[socket.socket]) -> None:
    """Close our copies; the last copy's end closes the port, and the file of a unix socket is removed."""
    for listener in listeners:
        if (path := path_of(listener)) is not None:
            with contextlib.suppress(OSError):
                Path(path).unlink()
        listener.close()


def _listen_patiently(bind: str, port: int, deadline: float) -> socket.socket:
    while True:
        try:
            return _listen(bind, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline or not _held_by_worker(port):
                raise
            time.sleep(0.05)  # before the loop runs: an orphan of a killed supervisor is on its way out


def _listen(bind: str, port: int) -> socket.socket:
    family, address = _resolve(bind, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        return _prepare(listener)
    except OSError:
        listener.close()
        raise


def _adopt(bind: str, port: int, inherited: Inherited) -> socket.socket | None:
    listener = inherited(*_resolve(bind, port))
    if listener is None:
        return None
    try:
        return _prepare(listener)
    except OSError:
        listener.close()
        raise


def _prepare(listener: socket.socket) -> socket.socket:
    """Make a bound socket listen, be it again: one that was shut down has only forgotten to."""
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def _resolve(bind: str, port: int) -> tuple[socket.AddressFamily, Address]:
    info = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return info[0], info[4]


def _explain(bind: str, port: int, purpose: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} ({purpose}) is taken by {describe_holder(port)}; free it or choose another in agents.yaml"
    if error.errno == errno.EACCES:
        return f"port {port} ({purpose}) needs privileges; choose one from 1024 up in agents.yaml"
    return f"cannot listen on {bind} port {port} ({purpose}): {error.strerror or error}"


def describe_holder(port: int) -> str:
    """Who listens on a TCP port, as far as this user may know: `nginx (pid 42)`, escaped: users choose names."""
    for process in _holders(port):
        try:
            return f"{terminal_line(process.name())} (pid {process.pid})"
        except psutil.Error:
            continue
    return "another process (which one, only its owner or root can see: ss -ltnp)"


def _holders(port: int) -> list[psutil.Process]:
    found = []
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return []
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            try:
                found.append(psutil.Process(connection.pid))
            except (psutil.Error, TypeError, ValueError):
                continue
    return found


def _held_by_worker(port: int) -> bool:
    holders = _holders(port)
    return bool(holders) and all(_is_worker(process) for process in holders)


def _is_worker(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[0].startswith(("pallas-worker", "pallas-gateway"))
    except (psutil.Error, IndexError):
        return True  # it has just gone


def connectable(bind: str) -> str:
    """The address at which a process of this machine reaches something bound to `bind`."""
    if _is_wildcard(bind):
        return "::1" if ":" in bind else "127.0.0.1"
    return bind


def _is_wildcard(bind: str) -> bool:
    try:
        return ipaddress.ip_address(bind).is_unspecified
    except ValueError:
        return False
