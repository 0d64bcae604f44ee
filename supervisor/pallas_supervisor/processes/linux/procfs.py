"""What the kernel says of a process in `/proc`, read as numbers. Linux only; decides nothing."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

MOST_ANCESTORS = 10_000

_SIZE = 8192
_PF_EXITING = 0x4
"""The flag of a task that is on its way out (include/linux/sched.h)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a thread has had of the CPU so far, in seconds.

    `waiting` is the time that it was ready to run and did not get to; the kernel adds to it when the thread gets its
    turn, so that a wait that goes on is not in it yet.
    """

    running: float = 0.0
    waiting: float = 0.0


def _read(pid: int, name: str) -> bytes:
    descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _SIZE)
    finally:
        os.close(descriptor)


def cpu_usage(pid: int) -> Usage:
    """What the main thread of a process has had of the CPU; nothing where the kernel does not say."""
    try:
        running, waiting, *_ = map(int, _read(pid, "schedstat").split())
    except (OSError, ValueError):
        return Usage()
    return Usage(running / 1e9, waiting / 1e9)


def _stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat after the name, which may hold anything: the state is the first."""
    return _read(pid, "stat").rpartition(b") ")[2].split()


def state(pid: int) -> str:
    """The main thread's state in one letter: R, S, D, T, t, Z, …; empty if there is no such process."""
    try:
        return _stat(pid)[0].decode()
    except (OSError, IndexError):
        return ""


def is_ending(pid: int) -> bool:
    """Whether the process has begun to end, or has ended and is not reaped: it has no title and no environment."""
    try:
        return bool(int(_stat(pid)[6]) & _PF_EXITING)
    except (OSError, IndexError, ValueError):
        return False


def parent(pid: int) -> int | None:
    """The process ID of its parent; None if there is no such process."""
    try:
        return int(_stat(pid)[1])
    except (OSError, IndexError, ValueError):
        return None


def ancestors(pid: int) -> tuple[int, ...] | None:
    """The process itself and those above it, the nearest first; None if one has ended between two looks.

    What has lost its parent is below the one that has adopted it. Where `/proc` hides the processes of other users
    (`ProtectProc=invisible`, `hidepid=2`), the last one is the first that is hidden.
    """
    found = []
    while pid > 0:
        found.append(pid)
        above = parent(pid)
        if above is None and _is_of_another_user(pid):
            break
        if above is None or above in found or len(found) > MOST_ANCESTORS:
            return None
        pid = above
    return tuple(found)


def _is_of_another_user(pid: int) -> bool:
    """Whether the process is there and this user may not even send it a signal."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def has_variable(pid: int, name: str, value: str) -> bool:
    """Whether a process was executed with that environment variable; False where that may not be known."""
    try:
        environment = Path("/proc", str(pid), "environ").read_bytes()
    except OSError:
        return False
    return f"{name}={value}".encode() in environment.split(b"\0")


def now() -> int:
    """The moment in clock ticks since boot."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def started(pid: int) -> int | None:
    """When the process was forked, in clock ticks since boot; None if it is gone."""
    try:
        return int(_stat(pid)[19])
    except (OSError, IndexError, ValueError):
        return None


def memory(pid: int) -> int | None:
    """Bytes that the process holds and that no file backs, in memory or swapped out; None if it is gone.

    A forked worker's share in its zygote's memory counts in full, so that forked and exec'd workers compare.
    """
    try:
        lines = _read(pid, "status").splitlines()
    except OSError:
        return None
    fields = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
    found = [int(line.split()[1]) for line in lines if line.startswith(fields)]
    return sum(found) * 1024 if found else None  # a zombie has none


def pipes(pid: int) -> frozenset[str]:
    """The pipes that are the process's stdin, stdout and stderr, as `pipe:[inode]`."""
    found = set()
    for number in range(3):
        try:
            found.add(str(Path(f"/proc/{pid}/fd/{number}").readlink()))
        except OSError:
            continue
    return frozenset(link for link in found if link.startswith("pipe:"))
