"""Small real processes for the supervisor's tests, and what is left of them: descriptors, children, groups."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pallas_supervisor.processes.linux.process_tree import become_subreaper, children

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 120.0
"""Seconds after which something that should happen is not waited for any more."""


def descriptors() -> set[str]:
    """What this process has open, by number and target."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name} -> {entry.readlink()}")
        except OSError:  # the listing's own
            continue
    return found


@contextmanager
def nothing_leaked() -> Iterator[None]:
    """No descriptor and no child more at the end than at the beginning."""
    before, own = descriptors(), set(children())
    yield
    assert descriptors() - before == set()
    assert set(children()) - own == set()


@contextmanager
def subreaper() -> Iterator[None]:
    """Adopt orphans, as the supervisor does; what is left of them in the end is killed."""
    own = set(children())
    become_subreaper()
    try:
        yield
    finally:
        ctypes.CDLL(None).prctl(36, 0)
        for pid in set(children()) - own:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def program(path: Path, source: str) -> str:
    """An executable Python program; it starts fast, for it has no site-packages."""
    path.write_text(f"#!{sys.executable} -IS\n{textwrap.dedent(source)}")
    path.chmod(0o755)
    return str(path)


def is_gone(pid: int) -> bool:
    """Whether a process exists no more, not even as a zombie."""
    return not Path("/proc", str(pid)).exists()


def until_written(path: Path) -> str:
    """The content of a file that another process writes, once there is some."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()).endswith("\n"):
            return text
        time.sleep(0.005)  # another process's file: nothing tells
    raise AssertionError(f"{path} was not written")


class Events:
    """Takes events, and waits for them."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    def put(self, *event: Any) -> None:
        self._queue.put_nowait(event[0] if len(event) == 1 else event)

    async def next(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            return await self._queue.get()

    @property
    def empty(self) -> bool:
        return self._queue.empty()
