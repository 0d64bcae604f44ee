"""Starting a program with inherited descriptors and a session of its own. The only place that spawns.

Knows posix_spawn(3); nothing of what the program is.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_DEFAULT_SIGNALS = signal.valid_signals()
"""All: what this process was started to ignore (by a shell, with `&`: SIGQUIT) is ignored below it otherwise."""

MOST_DESCRIPTORS = 65_536
"""Descriptors that a supervisor may want at the same time."""

_SOFT_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
"""Descriptors that this process was allowed at its start, and that programs are allowed that it starts."""


def raise_descriptor_limit() -> None:
    """Allow this process as many descriptors as it may have; programs that it starts keep the limit of before.

    Whatever uses select(2) cannot look at descriptors from 1024 up, which is why the usual soft limit is so low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _pass_on_limits(pid: int) -> None:
    """Allow a program that has just been started what we were allowed; posix_spawn(3) can set no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != _SOFT_LIMIT:
        with contextlib.suppress(OSError):  # it has ended already
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (_SOFT_LIMIT, hard))


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


def keep_descriptors() -> None:
    """Let no program that is started from now on inherit what this process itself was started with.

    Python's own descriptors are never inherited; a shell's or a service manager's may be.
    """
    for entry in list(Path("/proc/self/fd").iterdir()):
        if int(entry.name) > 2:
            with contextlib.suppress(OSError):  # the listing's own
                os.set_inheritable(int(entry.name), False)


def execute(
    arguments: Sequence[str], environment: Mapping[str, str], inherited: Iterable[int], output: int | None
) -> int:
    """Start `arguments[0]` (a path) and return its process ID.

    Args:
        inherited: descriptors that keep their numbers in the new process; all others are closed there,
            except inheritable ones, of which `keep_descriptors` leaves none.
        output: descriptor that becomes stdout and stderr, or None to share ours. stdin is always empty.

    Raises:
        OSError: the program cannot be executed.
    """
    actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    ]
    if output is not None:
        actions += [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]
    kept = list(inherited)
    for descriptor in kept:
        os.set_inheritable(descriptor, True)
    try:
        pid = os.posix_spawn(
            arguments[0],
            list(arguments),
            dict(environment),
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=_DEFAULT_SIGNALS,
        )
    finally:
        for descriptor in kept:
            os.set_inheritable(descriptor, False)
    _pass_on_limits(pid)
    return pid
