"""A program with all that it has started: found, and ended.

Knows `/proc` and signals. Linux tells nobody which processes descend from one whose parents have ended, so what belongs
to a program is told by several signs, each of which can be shed: its session, its parents, the mark in its environment,
its pipes. What sheds all of them (a session of its own, no environment, other pipes, and no parent left) is found by
the supervisor when the worker ends, and not before.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

OWNER_VARIABLE = "PALLAS_WORKER"
"""Environment variable of a worker and all that it executes: `agent/generation`."""
MARK_VARIABLE = "PALLAS_PROGRAM"
"""Environment variable of a program and what it executes: another value for each start."""


class _Process(NamedTuple):
    pid: int
    parent: int
    session: int
    started: int
    """In clock ticks since boot."""
    is_ended: bool


class ProcessTree:
    """A program and what it has started, looked for again and again: what was found once stays known.

    Args:
        root: the program, which leads its session, and whose number is its own: nobody reaps it meanwhile.
        mark: the value of `MARK_VARIABLE` in its environment.
        pipes: its stdin and stdout, as links in `/proc` name them.
    """

    def __init__(self, root: int, mark: str, pipes: Collection[str]) -> None:
        self._root = root
        self._mark = f"{MARK_VARIABLE}={mark}".encode()
        self._pipes = frozenset(pipes)
        process = _process(root)
        self._started = 0 if process is None else process.started
        self._known: set[tuple[int, int]] = set()
        """Process IDs and starts of what has been found."""

    def look(self) -> list[_Process]:
        """What lives of it. Takes some milliseconds; best before the program ends, while parents tell the most."""
        every = {process.pid: process for process in _processes() if process.started >= self._started}
        found = {pid for pid, process in every.items() if self._has_sign(process)}
        while more := {pid for pid, process in every.items() if process.parent in found} - found:
            found |= more
        self._known = {(pid, every[pid].started) for pid in found}
        return [every[pid] for pid in found if not every[pid].is_ended]

    def kill(self) -> bool:
        """SIGKILL all of it that is found; whether there was nothing that still lived.

        Where there was, another look is needed: at what it has started meanwhile, and what dies slowly.
        """
        left = self.look()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._root, signal.SIGKILL)
        for process in left:
            _kill(process)
        return not left

    def _has_sign(self, process: _Process) -> bool:
        if self._root in (process.pid, process.session) or (process.pid, process.started) in self._known:
            return True
        if process.pid == os.getpid():
            return False
        with contextlib.suppress(OSError):
            if self._mark in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                return True
            links = (str(Path(f"/proc/{process.pid}/fd/{number}").readlink()) for number in (0, 1))
            return not self._pipes.isdisjoint(links)
        return False


def _kill(process: _Process) -> None:
    """Kill this very process: not another one that has got its number."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(process.pid)
        try:
            now = _process(process.pid)
            if now is not None and now.started == process.started:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        finally:
            os.close(pidfd)


def _processes() -> Iterator[_Process]:
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and (process := _process(int(entry.name))) is not None:
            yield process


def _process(pid: int) -> _Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
        fields = text.rpartition(b") ")[2].split()  # before it stands the name, which may hold anything
        return _Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), fields[0] in b"ZX")
    except (OSError, IndexError, ValueError):
        return None
