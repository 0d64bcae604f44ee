"""Ctrl-C that is never missed, for a command that may wait without end.

Knows signals and one thread. Python raises KeyboardInterrupt between two steps of a program: a SIGINT that comes just
before a read begins to block would be noticed only when there is something to read.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

from pallasctl.failures import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE = 0.2
"""Seconds in which a KeyboardInterrupt may still end the command in the usual way."""


@contextlib.contextmanager
def ending_on_interrupt() -> Iterator[None]:
    """Within the block, SIGINT ends the process with `EXIT_INTERRUPTED`, whatever it is waiting for."""
    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    done = threading.Event()

    def watch() -> None:
        while number := reader.recv(1):
            if number[0] == signal.SIGINT and not done.wait(GRACE):
                os._exit(EXIT_INTERRUPTED)

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
