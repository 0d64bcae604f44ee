"""Forking a process that is no child of ours, but of the keeper above us.

Why: only a parent can read how a process ended. So workers have one parent, the keeper, whether their zygote lives or
not, and the zygote, which has one thread and no loop, has no child to wait for.

Knows system calls, nothing of workers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_worker.process.sibling_fork import fork_sibling

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def fork_adopted(run: Callable[[], NoReturn]) -> int:
    """Fork a process that does `run` in a session of its own; its process ID once it is the child of the keeper.

    Where `fork_sibling` cannot be had, it is forked twice: when the process between has ended, its child belongs to the
    next subreaper above (prctl(2)), the supervisor's keeper, which alone reads its exit status.

    Raises:
        OSError: there can be no further process.
        RuntimeError: this process has threads, or the second fork failed.
    """
    if not has_one_task():
        raise RuntimeError("the zygote has more than one thread, a fork would not be safe")
    if (sibling := fork_sibling(run)) is not None:
        return sibling
    read_end, write_end = os.pipe()
    try:
        between = os.fork()
        if between == 0:
            os.close(read_end)
            _between(run, write_end)
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    try:
        answer = os.read(read_end, 32)
    finally:
        os.close(read_end)
        os.waitpid(between, 0)  # with which its child has been handed on
    if not answer:
        raise RuntimeError("the worker could not be forked; is a process or memory limit reached?")
    return int(answer)


def has_one_task() -> bool:
    """Whether this process has no thread but the one that asks, whichever language started it."""
    return sum(1 for _ in Path("/proc/self/task").iterdir()) == 1


def _between(run: Callable[[], NoReturn], write_end: int) -> NoReturn:
    try:
        own_pid = os.getpid()
        child = os.fork()
        if child == 0:
            os.close(write_end)
            _adopted(run, own_pid)
        os.write(write_end, str(child).encode())
    finally:
        os._exit(0)


def _adopted(run: Callable[[], NoReturn], between: int) -> NoReturn:
    try:
        os.setsid()
        while os.getppid() == between:  # a few microseconds
            os.sched_yield()
        run()
    finally:
        os._exit(70)
