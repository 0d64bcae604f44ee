"""What `pallas` prints in a terminal: one short line for each record from INFO up.

Knows log records; JSON for machines goes to the log file and, with PALLAS_LOG_STDERR=1, to stderr. A terminal that is
not read (Ctrl-S, a pager, a pipe to something that hangs) costs lines, never the supervisor's time.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from pallas_common.terminal_text import terminal_text
from pallas_supervisor.logs.background_writer import BackgroundWriter

if TYPE_CHECKING:
    from typing import TextIO

QUEUE_BYTES = 1024 * 1024
"""Bytes of lines that may wait for the terminal."""

CLOSE_TIMEOUT = 2.0
"""Seconds that the last lines may take."""


class Console(logging.Handler):
    """Prints the supervisor's records from INFO up, prefixed with the deployment's name.

    Args:
        stream: where to, in place of stderr. None, as Python's stderr is without a descriptor 2, prints nothing.
    """

    def __init__(self, deployment: str, stream: TextIO | None = sys.stderr) -> None:
        super().__init__(logging.INFO)
        self._prefix = f"[{deployment}] "
        self._stream = stream
        self._writer = BackgroundWriter("console", self._print, limit=QUEUE_BYTES)

    def emit(self, record: logging.LogRecord) -> None:
        """Hand over one line."""
        try:
            word = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
            # Indentation distinguishes a message of several lines from several messages.
            message = terminal_text(record.getMessage()).replace("\n", "\n    ")
            self._writer.put(f"{self._prefix}{word}{message}\n".encode())
        except Exception:  # noqa: BLE001 - logging's contract: a handler never raises into the program
            self.handleError(record)

    def close(self) -> None:
        """Print what waits, for a moment at most; the standard library calls this when the program ends."""
        self._writer.close()
        self._writer.join(CLOSE_TIMEOUT)
        super().close()

    def _print(self, line: bytes) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(line.decode())
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None  # the terminal has gone
