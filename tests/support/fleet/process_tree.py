"""Processes as the kernel tells of them: descendants, zombies, titles, descriptors, memory. Linux only.

Knows /proc; nothing of what the processes are.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
from collections import Counter
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Seen:
    """One process at one moment; a zombie has no title."""

    pid: int
    parent: int
    title: str
    zombie: bool

    def __str__(self) -> str:
        return (
            f"{self.pid} ({'a zombie' if self.zombie else self.title or 'no title'}), child of {self.parent}"
        )


def descendants(root: int) -> list[Seen]:
    """Everything below `root`; what ends meanwhile may or may not be there."""
    found: list[Seen] = []
    parents = [root]
    while parents:
        parent = parents.pop()
        for pid in _children(parent):
            parents.append(pid)
            with contextlib.suppress(OSError):
                found.append(_look(pid, parent))
    return found


def marked(mark: str) -> list[Seen]:
    """All processes of the machine with `mark` in their environment or title, wherever they hang."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes():
                found.append(_look(int(entry.name), 0))
    return found


def open_descriptors(pid: int) -> Counter[str]:
    """What a process has open, by kind: sockets and pipes count together, files by their paths."""
    kinds: Counter[str] = Counter()
    for entry in Path("/proc", str(pid), "fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(entry.readlink())
            kinds[re.sub(r":\[\d+\]$", "", target)] += 1
    return kinds


def proportional_memory(pid: int) -> int:
    """Bytes of memory, shared pages by shares (PSS)."""
    for line in Path("/proc", str(pid), "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Pss in smaps_rollup")


def cpu_nanoseconds(pid: int) -> int:
    """What all threads of a process have had of the CPU so far; its children's is not counted."""
    tasks = Path("/proc", str(pid), "task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def await_end(pid: int, patience: float) -> bool:
    """Wait until a process, anybody's, has ended; whether it has within so many seconds."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(patience * 1000))
    finally:
        os.close(pidfd)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path("/proc", str(pid), "task").iterdir():
            with contextlib.suppress(OSError):
                found.extend(map(int, (task / "children").read_text().split()))
    return found


def _look(pid: int, parent: int) -> Seen:
    process = Path("/proc", str(pid))
    state = (process / "stat").read_text().rpartition(")")[2].split()[0]
    title = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return Seen(pid, parent, title, state in "ZX")
