"""Which processes are ours, which worker each belongs to, and how to end and reap them. Linux only.

Knows system calls and `/proc`; nothing of agents' states or of the event loop.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pallas_supervisor.states import Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

OWNER_VARIABLE = "PALLAS_WORKER"
"""Environment variable of a worker and all that it executes: `agent/generation`."""

_WORKER_TITLE = re.compile(rb"pallas-worker ([^ ]+) (\d+) ")
_ZYGOTE_TITLE = b"pallas-zygote"
_TITLES = b"pallas-"
_PR_SET_CHILD_SUBREAPER = 36


class Owner(NamedTuple):
    """The start of an agent that a process belongs to."""

    name: str
    generation: int


def become_subreaper() -> None:
    """Adopt every descendant whose parent dies, so that none escapes to init (prctl(2)).

    Raises:
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def children() -> Iterator[int]:
    """The process IDs of this process's children, adopted ones and zombies included."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            yield from map(int, (task / "children").read_bytes().split())


NASCENT = Owner("", 0)
"""Owner of a process that the zygote has forked and that is no worker yet, or has not taken its name yet."""


def owner_of(pid: int) -> Owner | None:
    """The worker that a process is or descends from, or None if nothing tells.

    A worker and what it forks bear its title; what it executes bears `OWNER_VARIABLE`.
    """
    process = Path("/proc", str(pid))
    with contextlib.suppress(OSError, ValueError):
        title = (process / "cmdline").read_bytes()
        if (bears := _WORKER_TITLE.match(title)) is not None:
            return Owner(bears[1].decode(), int(bears[2]))
        if title.startswith(_ZYGOTE_TITLE):
            return NASCENT
        for entry in (process / "environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == OWNER_VARIABLE.encode():
                agent, _, generation = value.decode().rpartition("/")
                return Owner(agent, int(generation))
        if title.startswith(_TITLES):  # read while the title was being written
            return NASCENT
    return None


def exit_of(pidfd: int) -> Exit | None:
    """How the child behind `pidfd` ended, without reaping it; None while it runs."""
    info = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if info is None:
        return None
    if info.si_code == os.CLD_EXITED:
        return Exit(status=info.si_status)
    return Exit(signal=info.si_status)


def pidfd_of(pid: int) -> int:
    """Open the pidfd of a child. One that cannot be watched must not live: it is killed and reaped.

    Raises:
        OSError: there is no such process, or no descriptor is left.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise


def send(pidfd: int, number: signal.Signals) -> None:
    """Send a signal to the process behind `pidfd`; a process that is gone is no error."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def kill_group(group: int) -> bool:
    """SIGKILL every process of the group, reap what is ours of it, and say whether none is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG) != (0, 0):
            pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def kill_strays(known: Collection[int], belongs: Callable[[int, Owner | None], bool]) -> bool:
    """SIGKILL and reap adopted children of which `belongs(pid, owner)` holds; say whether there was none.

    While there was one, another look is needed: its own children are adopted as it dies.

    Args:
        known: process IDs that are workers or the zygote, never strays.
    """
    clean = True
    for pid in set(children()) - set(known):
        if not belongs(pid, owner_of(pid)):
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        clean = False
    return clean


def reap_zombies(known: Collection[int]) -> None:
    """Reap adopted children that have ended, other than the `known` ones."""
    for pid in set(children()) - set(known):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def session_of(pid: int) -> int | None:
    """The session of a process, which is the process ID of the worker that opened it; None if it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return None
