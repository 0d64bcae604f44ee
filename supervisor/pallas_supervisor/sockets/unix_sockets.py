"""Unix sockets to listen on, in a directory that is this user's alone, at paths where anything may lie.

Knows paths and what lies there; nothing of agents. Whoever calls holds the lock of the runtime directory, so that no
other supervisor listens there: a socket file is what a killed one has left, unless the service manager kept its socket.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
from typing import TYPE_CHECKING

from pallas_common.terminal_text import terminal_line
from pallas_registry.environment.runtime_directory import DIRECTORY_VARIABLE, SOCKET_PATH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

BACKLOG = 4096
"""Connections that may wait while a worker is starting; the kernel caps it at net.core.somaxconn."""

_NAME = re.compile(r"[0-9a-f]{16}\.sock")

type Inherited = Callable[[str], socket.socket | None]
"""Finds the socket that a service manager handed down for this path."""


class UnusablePathError(Exception):
    """It cannot be listened on at a path; the message says why, and what to do."""


def make_directory(directory: Path) -> None:
    """Make the directory of sockets, for this user alone, or make sure that it is such a one.

    Raises:
        UnusablePathError: something else is there, or it is another user's.
    """
    with _explained(directory):
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise _in_the_way(directory, found)
        if found.st_uid != os.getuid():
            raise UnusablePathError(
                f"{_shown(directory)} belongs to another user (uid {found.st_uid}); remove it, or set "
                f"{DIRECTORY_VARIABLE} to a directory of your own"
            )
        if stat.S_IMODE(found.st_mode) != 0o700:
            directory.chmod(0o700)


def listen_at(path: Path, inherited: Inherited) -> socket.socket:
    """Listen at a path in the directory that `make_directory` has made; what a killed supervisor left is replaced.

    Raises:
        UnusablePathError: the path is too long, something else is there, or it cannot be bound.
    """
    if (length := len(os.fsencode(path))) > SOCKET_PATH_BYTES:
        raise UnusablePathError(
            f"the path of its unix socket has {length} bytes, {SOCKET_PATH_BYTES} are allowed; set "
            f"{DIRECTORY_VARIABLE} to a path that is shorter by {length - SOCKET_PATH_BYTES}, or give it a port"
        )
    with _explained(path):
        found = _at(path)
        # Without its file nobody would reach one that was handed down.
        listener = None if found is None else inherited(str(path))
        if listener is None:
            listener = _bind(path, found)
        try:
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        return listener


def remove_leftovers(directory: Path, wanted: Collection[Path]) -> None:
    """Remove the socket files of agents that are gone, which a killed supervisor has left."""
    keep = {path.name for path in wanted}
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            if path.name not in keep and _NAME.fullmatch(path.name) and stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()


def path_of(listener: socket.socket) -> str | None:
    """Where a unix socket listens; None for one of another family, or one that is closed or bound to no path."""
    if listener.family != socket.AF_UNIX or listener.fileno() == -1:
        return None
    name = listener.getsockname()
    return name if isinstance(name, str) and name else None


def _bind(path: Path, found: os.stat_result | None) -> socket.socket:
    if found is not None:
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # rw for this user alone from the very first moment
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(mask)
    return listener


def _at(path: Path) -> os.stat_result | None:
    """The socket file at the path, if there is one.

    Raises:
        UnusablePathError: something else is there.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        raise _in_the_way(path, found)
    return found


def _in_the_way(path: Path, found: os.stat_result) -> UnusablePathError:
    mode = found.st_mode
    what = (
        "a symbolic link"
        if stat.S_ISLNK(mode)
        else "a directory"
        if stat.S_ISDIR(mode)
        else "a file"
        if stat.S_ISREG(mode)
        else f"a socket of another user (uid {found.st_uid})"
        if stat.S_ISSOCK(mode)
        else "a special file"
    )
    return UnusablePathError(f"{what} is in the way at {_shown(path)}; remove it")


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnusablePathError(f"cannot listen at {_shown(path)}: {error.strerror or error}") from None


def _shown(path: Path) -> str:
    return terminal_line(str(path))
