"""The keeper process: the parent of zygote and workers, so that nothing which they start outlives the supervisor.

A process whose parent dies becomes a child of the nearest living ancestor that is a subreaper (prctl(2)). The keeper is
that ancestor, between the supervisor and all that it starts: whatever happens to the supervisor, to the zygote or to a
worker, their descendants become its children, whichever session they have opened, and whatever they have closed or
cleaned. While the supervisor lives, the keeper carries out its commands and nothing else; then it ends its children.

Without it, the supervisor's death by SIGKILL would hand everything to init. That workers notice the end of their
lifeline does not suffice: one that is idle has drained, and exited, before its own children have been killed, and one
whose interpreter is held up notices nothing.

Runs without site-packages (`python -I -S`), because it is one process more in every deployment: it imports little. Its
other end is `keeper.client`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

ORPHAN_GRACE = 4.0
"""Seconds after the supervisor's death that workers may take to finish their calls; they give themselves three."""

MOST_NUMBERS = 65_536
"""What descriptors' numbers are below, in the supervisor and therefore in what it starts."""

IGNORED = (
    *(signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM),
    *(signal.SIGPROF, signal.SIGIO, signal.SIGPWR, signal.SIGSTKFLT),
)
"""What would end it: Ctrl-C, and `pallas_common.processes.signals.ORDINARY`, as nothing of ours is imported here."""

PACKET = 1 << 16
"""Bytes of the longest command."""

MOST_DESCRIPTORS = 32
"""Descriptors that one command may carry."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_WORKERS = (b"pallas-worker ", b"pallas-gateway ")
_TITLE = max(map(len, _WORKERS))
_INTERVALS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)


def main() -> None:
    """Carry out commands from the SEQPACKET socket that is the first argument until it closes; then end all children.

    For each child that has ended, one byte is written to the pipe that is the second argument. Commands and answers:

    - `execute`, with a memory file (see `pack`) and the descriptors to inherit: the process ID, or `-` and an errno;
    - `exit PID`: the `si_code` and `si_status` of a child that has ended and stays as it is, or nothing;
    - `reap PID …`: nothing, once those that have ended are reaped;
    - `end`: no answer; all children are killed at once.
    """
    channel, deaths = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    for descriptor in (channel.fileno(), deaths):
        os.set_inheritable(descriptor, False)
    _prepare(deaths)
    limits: tuple[int, int] | None = None
    grace = ORPHAN_GRACE
    while True:
        try:
            command, descriptors, flags, _ = socket.recv_fds(channel, PACKET, MOST_DESCRIPTORS)
            for descriptor in descriptors:  # recv_fds takes flags, and drops them
                os.set_inheritable(descriptor, False)
            if command == b"end":
                grace = 0.0
            if command in (b"", b"end"):
                break
            if limits is None:  # not before the supervisor has set those that this process gets from it
                limits = _raise_descriptor_limit()
            if flags & socket.MSG_CTRUNC:  # there was no room here for all descriptors
                _close(descriptors)
                channel.send(f"-{errno.EMFILE}".encode())
            else:
                channel.send(_carry_out(command.decode(), descriptors, limits))
        except OSError:  # the supervisor has gone in the middle of it
            break
    signal.set_wakeup_fd(-1)
    os.close(deaths)
    _end_children(grace)


def pack(arguments: Sequence[str], environment: dict[str, str], numbers: Sequence[int], output: int) -> bytes:
    """What is to be executed, in one string: counts, and then all parts, each followed by a NUL character.

    Args:
        numbers: under which the descriptors are known in the new process.
        output: one of them, which becomes stdout and stderr, or -1.
    """
    variables = [f"{name}={value}" for name, value in environment.items()]
    counts = f"{len(arguments)} {output} {' '.join(map(str, numbers))}"
    return os.fsencode("".join(part + "\0" for part in (counts, *arguments, *variables)))


def _prepare(deaths: int) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(
        _PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0
    )  # stopped, it could not see the supervisor's end
    libc.prctl(_PR_SET_NAME, b"pallas-keeper", 0, 0, 0)
    for number in IGNORED:  # what it starts has them as they are by default
        signal.signal(number, signal.SIG_IGN)
    # The next supervisor sends it, so that the grace ends at once: it stays pending until `_end_children` takes it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    os.set_blocking(deaths, False)
    signal.set_wakeup_fd(deaths, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # the byte is written by the interpreter


def _raise_descriptor_limit() -> tuple[int, int]:
    """Allow this process the numbers that the supervisor may use; the limits for what it starts are returned."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_NUMBERS if hard == resource.RLIM_INFINITY else min(hard, MOST_NUMBERS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return soft, hard


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _carry_out(command: str, descriptors: list[int], limits: tuple[int, int]) -> bytes:
    verb, *words = command.split()
    if verb == "execute":
        try:
            return str(_execute(descriptors, limits)).encode()
        except OSError as error:
            return f"-{error.errno}".encode()
        finally:
            _close(descriptors)
    pids = map(int, words)
    if verb == "reap":
        for pid in pids:
            _reap(pid)
        return b"done"
    try:
        ended = os.waitid(os.P_PID, next(pids), os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return b"gone"
    return b"alive" if ended is None else f"{ended.si_code} {ended.si_status}".encode()


def _execute(descriptors: list[int], limits: tuple[int, int]) -> int:
    parts = os.pread(descriptors[0], os.fstat(descriptors[0]).st_size, 0).split(b"\0")[:-1]
    count, output, *numbers = map(int, parts[0].split())
    arguments, variables = parts[1 : count + 1], parts[count + 1 :]
    above = max(numbers, default=2) + 1
    moved: list[int] = []
    try:
        # Out of the way first, so that no number is taken by another descriptor before it has been copied.
        for descriptor in descriptors[1:]:
            moved.append(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above))  # noqa: PERF401 - some may fail
        copies = dict(zip(numbers, moved, strict=True))
        actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        ]
        if output >= 0:
            actions += [(os.POSIX_SPAWN_DUP2, copies[output], 1), (os.POSIX_SPAWN_DUP2, copies[output], 2)]
        actions += [(os.POSIX_SPAWN_DUP2, copy, number) for number, copy in copies.items()]
        pid = os.posix_spawn(
            arguments[0],
            arguments,
            dict(variable.split(b"=", 1) for variable in variables),
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=signal.valid_signals(),
        )
        with contextlib.suppress(OSError):  # it has ended already
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        return pid
    finally:
        for descriptor in moved:
            os.close(descriptor)


def _end_children(grace: float) -> None:
    """Let workers finish for `grace` seconds, or until a SIGTERM; then kill until there is no child any more.

    Only own children are signalled, whose numbers stay theirs until they are reaped here. The children of one that is
    killed become children of this process, and are next.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    deadline = time.monotonic() + grace
    while (left := deadline - time.monotonic()) > 0 and any(map(_is_worker, _children())):
        _reap_ended()
        news = signal.sigtimedwait({signal.SIGTERM, signal.SIGCHLD}, left)
        if news is not None and news.si_signo == signal.SIGTERM:
            break
    rounds = 0
    untouchable: set[int] = set()  # of another user, say a program that is setuid
    while pids := set(_children()) - untouchable:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError:
                untouchable.add(pid)
        _reap_ended()
        signal.sigtimedwait({signal.SIGCHLD}, _INTERVALS[min(rounds, len(_INTERVALS) - 1)])
        rounds += 1


def _children() -> list[int]:
    own = os.getpid()
    with open(f"/proc/{own}/task/{own}/children", "rb") as file:  # noqa: PTH123 - pathlib takes memory
        return list(map(int, file.read().split()))


def _is_worker(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return file.read(_TITLE).startswith(_WORKERS)
    except OSError:
        return False


def _reap_ended() -> None:
    for pid in _children():
        _reap(pid)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


if __name__ == "__main__":
    main()
