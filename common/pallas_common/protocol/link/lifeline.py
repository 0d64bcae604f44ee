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


class StopRequest:
    """The request to end, by SIGTERM, SIGINT or the supervisor's death: noticed before a loop runs, and in one.

    To be made in the main thread, which alone may use it.

    Args:
        lifeline, listener: as of `watch_lifeline`.
        orphaned: set at the supervisor's death, too.
    """

    def __init__(self, lifeline: int, listener: socket.socket | None, orphaned: threading.Event) -> None:
        self._orphaned = orphaned
        self._made = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._noticed = asyncio.Event()
        self._handlers: dict[signal.Signals, object] = {}
        self._take_signals()
        watch_lifeline(lifeline, listener, self._orphan)

    def is_made(self) -> bool:
        """Return whether the end has been asked for."""
        return self._made or self._noticed.is_set()

    def in_loop(self) -> asyncio.Event:
        """Return what is set once the end is asked for, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._take_signals()
        if self._made:
            self._noticed.set()
        return self._noticed

    def take_back(self) -> tuple[signal.Signals, ...]:
        """Handle the signals that another handler was set for meanwhile; which these are."""
        lost = tuple(each for each, handler in self._handlers.items() if signal.getsignal(each) != handler)
        if lost:
            self._take_signals()
        return lost

    def _take_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            if self._loop is None:
                signal.signal(number, self._note)
            else:
                self._loop.add_signal_handler(number, self._noticed.set)
            self._handlers[number] = signal.getsignal(number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._handlers)

    def _note(self, *_: object) -> None:
        self._made = True

    def _orphan(self) -> None:
        self._orphaned.set()
        self._made = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._noticed.set)
