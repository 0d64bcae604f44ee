"""What a process owes its supervisor's death: to be gone within seconds, whatever its own loop is doing.

Knows descriptors, signals and one thread; nothing of agents or MCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ORPHAN_GRACE = 3.0
"""Seconds that calls in flight get after the supervisor's death."""

_PR_SET_PDEATHSIG = 1


def wake_on_parent_death() -> None:
    """Have the kernel send SIGCONT when the parent dies, so that a stopped worker sees its lifeline's end.

    The parent is the keeper, or the supervisor where there is none. Call it only once that is so: the setting is about
    the parent of the moment (prctl(2)).
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


def watch_lifeline(
    lifeline: int, listener: socket.socket | None, orphaned: Callable[[], None]
) -> threading.Thread:
    """Watch the lifeline in a thread of its own; a blocked event loop cannot keep it from acting.

    At the lifeline's end of file the listening socket is shut down for every process that holds it, which frees
    the port for the next supervisor at once; None stands for one that the next supervisor inherits as it is. Then
    `orphaned` is called (in this thread) to begin a drain; and after `ORPHAN_GRACE` seconds the whole process group
    is killed.
    """

    def watch() -> None:
        while os.read(lifeline, 64):
            pass
        if listener is not None:
            with contextlib.suppress(OSError):  # another worker of the same agent may have been quicker
                listener.shutdown(socket.SHUT_RDWR)
        timer = threading.Timer(ORPHAN_GRACE, os.killpg, (0, signal.SIGKILL))
        timer.daemon = True
        timer.start()
        orphaned()

    thread = threading.Thread(target=watch, name="lifeline", daemon=True)
    thread.start()
    return thread


def until_stopped(lifeline: int, listener: socket.socket | None, orphaned: threading.Event) -> asyncio.Event:
    """What SIGTERM, SIGINT and the supervisor's death set; to be called in the running loop.

    Args:
        lifeline, listener: as of `watch_lifeline`.
        orphaned: set at the supervisor's death, too.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    def stop() -> None:
        orphaned.set()
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(stopping.set)

    watch_lifeline(lifeline, listener, stop)
    return stopping
