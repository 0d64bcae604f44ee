"""Ctrl-C that is never missed, for a command that may wait without end.

Knows signals and one thread. Python raises KeyboardInterrupt between two steps of a program: a SIGINT that comes just
before a read begins to block, or in another thread, would be noticed only when there is something to read.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

from pallasctl.failures import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GRACE = 0.2
"""Seconds in which a KeyboardInterrupt may still leave the block in the usual way."""


@contextlib.contextmanager
def ending_on_interrupt() -> Iterator[None]:
    """Within the block, SIGINT ends the process with `EXIT_INTERRUPTED`, whatever it is waiting for."""
    before = sys.unraisablehook

    def report(what: sys.UnraisableHookArgs) -> None:
        # Raised in a destructor it goes nowhere and would only be printed; the thread ends the process then.
        if not isinstance(what.exc_value, KeyboardInterrupt):
            before(what)

    sys.unraisablehook = report
    try:
        with _insisting(lambda: os._exit(EXIT_INTERRUPTED)):
            yield
    finally:
        sys.unraisablehook = before


@contextlib.contextmanager
def waking_on_interrupt() -> Iterator[None]:
    """Within the block, SIGINT raises KeyboardInterrupt even where readline has just begun to wait for a key.

    SIGWINCH is what readline has a handler for and what changes nothing: it ends the wait, and Python looks.
    """
    main = threading.main_thread().ident
    assert main is not None
    with _insisting(lambda: signal.pthread_kill(main, signal.SIGWINCH)):
        yield


@contextlib.contextmanager
def _insisting(react: Callable[[], None]) -> Iterator[None]:
    """After a SIGINT that does not end the block, call this again and again until the block has ended."""
    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    done = threading.Event()

    def watch() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGWINCH})
        while number := reader.recv(1):
            while number[0] == signal.SIGINT and not done.wait(GRACE):
                react()

    watching = threading.Thread(target=watch, name="interrupts", daemon=True)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watching.start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(before)
        writer.close()
        watching.join()
        reader.close()
