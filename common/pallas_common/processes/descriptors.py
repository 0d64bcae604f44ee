"""Which descriptors a process has open, and which of them its children get: none but those that are meant for them.

Knows descriptors and `/proc`; nothing of what they are for.

A program inherits what is not marked close-on-exec. Python marks all that it opens; what a process was started with,
or was sent over a socket, is not marked, and a listening socket among it lets every program below accept other
people's connections. A fork has everything whatever its marks: `withhold_from_forks` takes out what is ours.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_OWN = Path("/proc/self/fd")
_EVENT_POLL = "anon_inode:[eventpoll]"
_RING = "anon_inode:[io_uring]"
"""Which uvloop has beside its epoll instance."""
_SIZE_OF_INT = 4


def open_standard_descriptors() -> None:
    """Have stdin, stdout and stderr open, on the null device if we were started without them (`pallas 2>&-`).

    Otherwise the next socket or file would take such a number, and be written to as stderr by whatever we start.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # which takes the lowest number that is free: this one
            os.set_inheritable(descriptor, True)


def withhold_all() -> None:
    """Let no program that is started from now on inherit what this process itself was started with.

    To be called at the very start of a process, before anything else can start one.
    """
    for descriptor in inheritable():
        os.set_inheritable(descriptor, False)


def inheritable() -> list[int]:
    """The descriptors from 3 up that a program would inherit, were it started now."""
    found = []
    for descriptor in _numbers():
        with contextlib.suppress(OSError):  # the listing's own
            if descriptor > 2 and os.get_inheritable(descriptor):
                found.append(descriptor)
    return found


def receive(channel: socket.socket, size: int, most: int) -> tuple[bytes, list[int], int]:
    """Receive a packet and the descriptors with it, none of which programs inherit; as `socket.recv_fds` otherwise.

    Args:
        size: bytes of the longest packet.
        most: descriptors that may come with it.

    Returns:
        The packet, the descriptors, and the flags of recvmsg(2).
    """
    data, ancillary, flags, _ = channel.recvmsg(
        size, socket.CMSG_SPACE(most * _SIZE_OF_INT), socket.MSG_CMSG_CLOEXEC
    )
    received: list[int] = []
    for level, kind, numbers in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = memoryview(numbers)[: len(numbers) - len(numbers) % _SIZE_OF_INT]
            received += whole.cast("i")
    return data, received, flags


def withhold_from_forks(descriptors: Iterable[int]) -> None:
    """Take descriptors out of every process that code of this one forks from now on, with all that its loop watches.

    What an event loop watches (connections of callers, of models and servers, pipes) is of no use in a fork, which has
    no loop; nor are connections to a listening socket among `descriptors`, watched or not. Each is replaced by the null
    device there, so that no number is taken by another file while some object still believes that it is its own.
    """
    kept = tuple(descriptors)
    addresses = [address for descriptor in kept if (address := _listens_on(descriptor)) is not None]
    os.register_at_fork(after_in_child=lambda: _replace((*kept, *_watched(), *_accepted_at(addresses))))


def _replace(descriptors: Iterable[int]) -> None:
    with contextlib.suppress(OSError):  # there is no room for one more
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.dup2(nothing, descriptor, inheritable=False)
        os.close(nothing)


def _listens_on(descriptor: int) -> object | None:
    """The address of a listening socket; None of anything else."""
    with _socket(descriptor) as one:
        if one is None or not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return None
        return one.getsockname()  # type: ignore[no-any-return]


def _accepted_at(addresses: Collection[object]) -> Iterator[int]:
    """The sockets of this process that have one of these addresses."""
    for descriptor in _numbers() if addresses else ():
        with contextlib.suppress(OSError), _socket(descriptor) as one:
            if one is not None and one.getsockname() in addresses:
                yield descriptor


@contextlib.contextmanager
def _socket(descriptor: int) -> Iterator[socket.socket | None]:
    """The socket behind a descriptor, which stays open; None where it is none."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        yield None
        return
    one = socket.socket(fileno=descriptor)
    try:
        yield one
    finally:
        one.detach()


def _watched() -> Iterator[int]:
    """What epoll instances of this process watch, and what loops have of the kernel themselves."""
    for descriptor in _numbers():
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - in a fork, the less the better
            if link not in (_EVENT_POLL, _RING):
                continue
            for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines():
                if line.startswith("tfd:") and (watched := int(line.split()[1])) > 2:
                    yield watched
            yield descriptor


def _numbers() -> list[int]:
    return [int(entry.name) for entry in _OWN.iterdir()]
