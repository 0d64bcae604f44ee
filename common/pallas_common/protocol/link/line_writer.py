"""Writing whole lines to a pipe without ever waiting for its reader.

Knows one descriptor; nothing of what the lines mean.
"""

from __future__ import annotations

import os
import threading

MAX_PENDING = 256 * 1024
"""Bytes kept while the pipe is full; lines beyond that are dropped and counted."""


class LineWriter:
    """A non-blocking writer of lines; safe to use from several threads of one process."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._pending = bytearray()
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self.dropped = 0

    def write(self, line: bytes) -> None:
        """Write one line, which ends with a line feed; drop it if the reader is too far behind.

        A process forked by the agent's code shares the pipe but not the buffer: its lines would be torn into
        this process's, so it writes nothing.
        """
        if os.getpid() != self._owner:
            return
        with self._lock:
            if len(self._pending) + len(line) > MAX_PENDING:
                self.dropped += 1
            else:
                self._pending += line
            self._flush()

    def _flush(self) -> None:
        while self._pending:
            try:
                written = os.write(self._descriptor, self._pending)
            except BlockingIOError:
                return
            except OSError:
                self._pending.clear()  # the reader is gone, and with it anybody who could read
                return
            del self._pending[:written]
