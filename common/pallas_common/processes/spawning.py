"""Starting a program with the descriptors that are meant for it, and no others. The only place that starts any.

Knows posix_spawn(3) and limits; nothing of what the program is.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from pallas_common.processes.descriptors import inheritable

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


def execute(
    arguments: Sequence[str], environment: Mapping[str, str], inherited: Iterable[int], output: int | None
) -> int:
    """Start `arguments[0]` (a path) in a session of its own and return its process ID.

    Args:
        inherited: descriptors that keep their numbers in the new process; all others are closed there.
        output: descriptor that becomes stdout and stderr, or None to share ours. stdin is always empty.

    Raises:
        OSError: the program cannot be executed.
    """
    actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    if output is not None:
        actions += [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]
    kept = list(inherited)
    actions += [(os.POSIX_SPAWN_CLOSE, other) for other in inheritable() if other not in kept]
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


def start_piped(
    command: Sequence[str], environment: Mapping[str, str], directory: str | None, errors: int
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own that is spoken with by pipes; it has these, `errors`, and nothing else.

    Args:
        command: the program, which is looked for in the PATH of its environment, and its arguments.
        directory: its working directory; None for ours.
        errors: descriptor that becomes its stderr.

    Raises:
        OSError, ValueError: the program cannot be executed.
    """
    started = subprocess.Popen(  # noqa: S603 - whoever configures a server says what runs
        command,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment,
        cwd=directory,
        close_fds=True,
        start_new_session=True,
    )
    _pass_on_limits(started.pid)
    return started


def run_at_terminal(arguments: Sequence[str]) -> int:
    """Run a program of the user's own on this terminal until it ends, and return its exit status.

    Raises:
        OSError: the program cannot be executed.
    """
    return subprocess.run(arguments, check=False).returncode  # noqa: S603 - the user has named it
