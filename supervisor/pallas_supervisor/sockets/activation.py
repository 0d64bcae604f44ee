"""Listening sockets that a service manager hands down (sd_listen_fds(3)): taken once, found by their address.

Knows inherited descriptors and addresses; nothing of agents. A name says only where a socket comes from: what it
is for, its address says.
"""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_supervisor.sockets.unix_sockets import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

FIRST_DESCRIPTOR = 3
VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


@dataclass(frozen=True, slots=True)
class Inherited:
    """One stream socket that was handed down, and what the manager calls it."""

    name: str
    listener: socket.socket


@dataclass(frozen=True, slots=True)
class Inheritance:
    """All that was handed down."""

    sockets: tuple[Inherited, ...] = ()
    others: tuple[str, ...] = ()
    """Names of descriptors that are of no use here; they are closed already."""


def take_inheritance(environ: MutableMapping[str, str]) -> Inheritance:
    """Take what was handed to this very process, and leave nothing of it to children or to a second call.

    The variables leave `environ`, and no program that is started later inherits the descriptors.
    """
    given = {variable: environ.pop(variable, "") for variable in VARIABLES}
    if given["LISTEN_PID"] != str(os.getpid()) or not given["LISTEN_FDS"].isdecimal():
        return Inheritance()
    names = given["LISTEN_FDNAMES"].split(":")
    sockets, others = [], []
    for position in range(int(given["LISTEN_FDS"])):
        name = names[position] if position < len(names) else ""
        listener = _listener(FIRST_DESCRIPTOR + position)
        if listener is None:
            others.append(name)
        else:
            sockets.append(Inherited(name, listener))
    return Inheritance(tuple(sockets), tuple(others))


def _listener(descriptor: int) -> socket.socket | None:
    """The stream socket behind a descriptor that is bound to an address or a path; anything else is closed."""
    try:
        os.set_inheritable(descriptor, False)
        found = socket.socket(fileno=descriptor)
    except OSError:  # it is no socket, or not even open
        with contextlib.suppress(OSError):
            os.close(descriptor)
        return None
    if found.type == socket.SOCK_STREAM and (
        found.family in (socket.AF_INET, socket.AF_INET6) or path_of(found) is not None
    ):
        return found
    found.close()
    return None


def serving(inherited: Iterable[Inherited], family: int, address: tuple[object, ...]) -> Inherited | None:
    """The socket that is bound to just this address; of several, the first.

    A socket for all addresses of both families, as a `.socket` unit makes it of a bare port, also serves those
    who want all of IPv4.
    """
    return next((each for each in inherited if _serves(each.listener, family, address)), None)


def _serves(listener: socket.socket, family: int, address: tuple[object, ...]) -> bool:
    if listener.family == socket.AF_UNIX:
        return False
    bound = listener.getsockname()
    if listener.family == family:
        return bool(bound[:2] == address[:2] and bound[3:] == address[3:])
    both = (
        listener.family == socket.AF_INET6
        and not listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        and bound[0] == "::"
    )
    return both and address[0] == "0.0.0.0" and bound[1] == address[1]
