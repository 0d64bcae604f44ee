"""What an earlier supervisor of this deployment has left behind after a violent end, ended by the next one.

Normally there is nothing: its keeper has ended it all. This is for a keeper that has not finished, or was killed too.
Knows the note that each supervisor leaves in the runtime directory, and `/proc`.

A name, a title or a process ID is no reason to kill anything: another deployment's workers have the same titles, and a
number may have been given to another process since. What identifies a process is a random word that only those of that
one supervisor have inherited, or a pipe that only they hold. A process that has cleaned its environment and closed its
descriptors is therefore spared; only the keeper, as its parent, could have known it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pallas_supervisor.processes.linux import procfs

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "PALLAS_FLEET"
"""Environment variable of all that a supervisor starts: a random word of this run."""

KEEPER_PATIENCE = 10.0
"""Seconds that the earlier supervisor's keeper may take to end, after SIGTERM."""

PATIENCE = 5.0
"""Seconds that killed processes may take to disappear."""

_NAME = "fleet.json"
_SIZE = 4096


@dataclass(frozen=True, slots=True)
class Trail:
    """What identifies the processes of one run of a supervisor."""

    boot: str
    fleet: str
    """The value of `VARIABLE`."""
    lifeline: int
    """Inode of the pipe that workers hold, and what they fork."""
    since: int
    """When the supervisor was started, in clock ticks since boot; none of its processes is older."""
    keeper: int | None
    """Process ID."""
    keeper_since: int | None
    """When that was started, likewise."""

    @classmethod
    def of_this_process(cls, fleet: str, lifeline: int, keeper: int | None) -> Self:
        """What identifies the processes of this supervisor.

        Args:
            lifeline: a descriptor of the pipe.
        """
        since = procfs.started(os.getpid()) or 0
        keeper_since = None if keeper is None else procfs.started(keeper)
        return cls(_boot(), fleet, os.fstat(lifeline).st_ino, since, keeper, keeper_since)

    def write(self, directory: Path) -> None:
        """Leave the note. It is replaced as a whole: after a kill in between there is the old one or the new one.

        Raises:
            OSError: it cannot be written.
        """
        path = directory / _NAME
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)  # it may be a FIFO, at which opening would wait, or a link
        with new.open("x") as file:
            file.write(json.dumps(asdict(self)))
        new.chmod(0o600)
        new.replace(path)


def forget(directory: Path) -> None:
    """Remove the note: nothing is left of its processes."""
    (directory / _NAME).unlink(missing_ok=True)


def end_predecessor(directory: Path) -> list[str]:
    """End what the earlier supervisor of this runtime directory has left behind. Blocks, normally for no time at all.

    For the holder of the instance lock, before it takes a port. What is worth a line in the log is returned, because
    there is no log yet.
    """
    trail = _read(directory / _NAME)
    if trail is None:
        return []
    messages = []
    _hurry(trail)
    deadline = time.monotonic() + PATIENCE
    ended: set[int] = set()
    try:
        while left := _stop_all(trail):
            ended |= left.keys()
            for pidfd in left.values():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            gone = [_await_end(pidfd, deadline - time.monotonic()) for pidfd in left.values()]
            for pidfd in left.values():
                os.close(pidfd)
            if not all(gone):
                which = ", ".join(map(str, left))
                messages.append(
                    f"an earlier supervisor has left processes behind that cannot be killed: {which}"
                )
                break
    except OSError as error:
        messages.append(f"cannot look for what an earlier supervisor may have left behind: {error}")
    if ended:
        which = ", ".join(map(str, sorted(ended)))
        messages.append(f"killed what an earlier supervisor had left behind: {which}")
    return messages


# --- the keeper -------------------------------------------------------------------------------------------


def _hurry(trail: Trail) -> None:
    """Have the earlier keeper end its children at once: it knows them as their parent, and so exactly."""
    if trail.keeper is None:
        return
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(trail.keeper)
        try:
            if procfs.started(trail.keeper) == trail.keeper_since and _is_identified(trail.keeper, trail):
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
                signal.pidfd_send_signal(pidfd, signal.SIGCONT)
                _await_end(pidfd, KEEPER_PATIENCE)
        finally:
            os.close(pidfd)


def _await_end(pidfd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


# --- the others -------------------------------------------------------------------------------------------


def _stop_all(trail: Trail) -> dict[int, int]:
    """Stop what is identified and all that descends from it, so that none can fork; pidfds by process ID."""
    stopped: dict[int, int] = {}
    spared = {os.getpid(), *_ancestors()}
    while fresh := _family(trail, spared) - stopped.keys():
        for pid in fresh:
            begun = procfs.started(pid)
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            # What was seen and what the descriptor stands for might be two, of which one has ended in between.
            if begun is None or procfs.started(pid) != begun or not _is_of_us(pid):
                os.close(pidfd)
                spared.add(pid)
                continue
            stopped[pid] = pidfd
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
    return stopped


def _family(trail: Trail, spared: set[int]) -> set[int]:
    """The living processes that are identified, and their descendants, without the spared ones."""
    parents = {pid: _parent(pid) for pid in _living()}
    found = {pid for pid in parents if pid not in spared and _is_identified(pid, trail)}
    while more := {pid for pid, parent in parents.items() if parent in found} - found - spared:
        found |= more
    return found


def _is_identified(pid: int, trail: Trail) -> bool:
    begun = procfs.started(pid)
    if begun is None or begun < trail.since or not _is_of_us(pid):
        return False
    process = Path("/proc", str(pid))
    with contextlib.suppress(PermissionError, FileNotFoundError, ProcessLookupError):
        if f"{VARIABLE}={trail.fleet}".encode() in (process / "environ").read_bytes().split(b"\0"):
            return True
        pipe = f"pipe:[{trail.lifeline}]"
        return any(_target(entry) == pipe for entry in (process / "fd").iterdir())
    return False


def _target(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except FileNotFoundError:  # closed meanwhile
        return ""


def _is_of_us(pid: int) -> bool:
    """Whether it runs as this user: root may read, and could kill, those of all users."""
    try:
        return Path("/proc", str(pid)).stat().st_uid == os.geteuid()
    except OSError:
        return False


def _living() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and procfs.state(int(entry.name)) not in ("", "Z", "X"):
            yield int(entry.name)


def _parent(pid: int) -> int:
    return procfs.parent(pid) or 0


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    while pid > 0:
        yield pid
        pid = _parent(pid)


# --- the note ---------------------------------------------------------------------------------------------


def _read(path: Path) -> Trail | None:
    """The earlier supervisor's note; None if there is none, or none of this boot that can be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fields = json.loads(os.read(descriptor, _SIZE))
        trail = Trail(**fields)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    finally:
        os.close(descriptor)
    numbers = (trail.lifeline, trail.since)
    optional = (trail.keeper, trail.keeper_since)
    whole = all(isinstance(number, int) for number in numbers) and all(
        number is None or isinstance(number, int) for number in optional
    )
    named = isinstance(trail.fleet, str) and len(trail.fleet) >= 32
    return trail if whole and named and trail.boot == _boot() else None


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
