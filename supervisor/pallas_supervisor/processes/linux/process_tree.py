"""Which processes are ours, which worker each says that it belongs to, and how to end and reap them. Linux only.

Knows system calls and `/proc`; nothing of agents' states or of the event loop.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.processes.spawning import execute
from pallas_common.processes.tree import OWNER_VARIABLE
from pallas_common.protocol.gateway import GATEWAY_NAME
from pallas_supervisor.lifecycle.states import Exit, WorkerId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

_WORKER_TITLE = re.compile(rb"pallas-worker ([^ ]+) (\d+) ")
_GATEWAY_TITLE = re.compile(rb"pallas-gateway (\d+) ")
_ZYGOTE_TITLE = b"pallas-zygote"
_TITLES = b"pallas-"
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Adopt every descendant whose parent dies, so that none escapes to init (prctl(2)).

    Raises:
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def children(parent: int | None = None) -> Iterator[int]:
    """The process IDs of the children of a process, or of this one, adopted ones and zombies included.

    Raises:
        OSError: no descriptor is left to look with.
    """
    tasks = Path("/proc", "self" if parent is None else str(parent), "task")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in list(tasks.iterdir()):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
                yield from map(int, (task / "children").read_bytes().split())


UNASSIGNED = WorkerId("", 0)
"""Owner of a process that the zygote has forked and that is no worker yet, or does not bear its title yet."""


def owner_of(pid: int) -> WorkerId | None:
    """The worker that a process is or descends from, or None if neither title nor environment says it.

    A worker and what it forks bear its title; what it executes bears `OWNER_VARIABLE`.
    """
    process = Path("/proc", str(pid))
    with contextlib.suppress(OSError, ValueError):
        title = (process / "cmdline").read_bytes()
        if (bears := _WORKER_TITLE.match(title)) is not None:
            return WorkerId(bears[1].decode(), int(bears[2]))
        if (of_gateway := _GATEWAY_TITLE.match(title)) is not None:
            return WorkerId(GATEWAY_NAME, int(of_gateway[1]))
        if title.startswith(_ZYGOTE_TITLE):
            return UNASSIGNED
        for entry in (process / "environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == OWNER_VARIABLE.encode():
                agent, _, generation = value.decode().rpartition("/")
                return WorkerId(agent, int(generation))
        if title.startswith(_TITLES):  # read while the title was being written
            return UNASSIGNED
    return None


def exit_from(code: int, status: int) -> Exit:
    """How a process ended, from `si_code` and `si_status` of waitid(2)."""
    return Exit(status=status) if code == os.CLD_EXITED else Exit(signal=status)


class ProcessParent:
    """The parent of what the supervisor starts: here, this process; `Keeper` is one between."""

    @property
    def pid(self) -> int | None:
        """The process between this one and its programs, if there is one."""
        return None

    def execute(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        inherited: Iterable[int],
        output: int | None,
    ) -> int:
        """Start a program; see `spawning.execute`."""
        return execute(arguments, environment, inherited, output)

    def pids(self) -> set[int]:
        """The children among which what workers have left behind may be.

        Raises:
            OSError: no descriptor is left to look with.
        """
        return set(children())

    def adopted(self) -> set[int]:
        """All children that have to be reaped once they have ended."""
        return self.pids()

    def is_certainly_ours(self, pid: int) -> bool:
        """Whether it can only come from a worker or the zygote; else title and environment have to tell."""
        del pid
        return False

    def exit_of(self, pid: int, pidfd: int) -> Exit | None:
        """How a child ended, without reaping it; None while it runs."""
        del pid
        info = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        return None if info is None else exit_from(info.si_code, info.si_status)

    def reap(self, pids: Iterable[int]) -> None:
        """Reap those of these children that have ended."""
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


THIS_PROCESS = ProcessParent()


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


def send_signal(pidfd: int, number: signal.Signals) -> None:
    """Send a signal to the process behind `pidfd`; a process that is gone is no error."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def exists(pidfd: int) -> bool:
    """Whether the process behind `pidfd` is there, alive or as a zombie, so that its number is its own."""
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def kill_group(group: int, parent: ProcessParent = THIS_PROCESS) -> bool:
    """SIGKILL every process of the group, reap what is ours of it, and say whether none is left.

    Raises:
        OSError: no descriptor is left to look with.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    parent.reap([pid for pid in parent.pids() if _group_of(pid) == group])
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def kill_strays(
    known: Collection[int],
    belongs: Callable[[int, WorkerId | None], bool],
    parent: ProcessParent = THIS_PROCESS,
) -> bool:
    """SIGKILL and reap adopted children of which `belongs(pid, owner)` holds; say whether there was none.

    While there was one, another look is needed: its own children are adopted as it dies.

    Args:
        known: process IDs that are workers or the zygote, never strays.

    Raises:
        OSError: no descriptor is left to look with.
    """
    strays = [pid for pid in parent.pids() - set(known) if belongs(pid, owner_of(pid))]
    for pid in strays:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    parent.reap(strays)
    return not strays


def reap_zombies(known: Collection[int], parent: ProcessParent = THIS_PROCESS) -> None:
    """Reap adopted children that have ended, other than the `known` ones.

    Raises:
        OSError: no descriptor is left to look with.
    """
    parent.reap(parent.adopted() - set(known))


def session_of(pid: int) -> int | None:
    """The session of a process, which is the process ID of the worker that opened it; None if it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return None
