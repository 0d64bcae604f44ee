"""What somebody sees who runs `pallas` in a terminal: one short line for each thing worth knowing.

Knows log records; JSON for machines is the log file's and, with PALLAS_LOG_STDERR=1, stderr's affair.
"""

from __future__ import annotations

import logging
import sys


class Console(logging.Handler):
    """Prints the supervisor's records from INFO up, prefixed with the deployment's name."""

    def __init__(self, deployment: str) -> None:
        super().__init__(logging.INFO)
        self._prefix = f"[{deployment}] "

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line; a terminal that has gone is no error."""
        try:
            word = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
            print(f"{self._prefix}{word}{record.getMessage()}", file=sys.stderr, flush=True)
        except Exception:  # noqa: BLE001 - logging's contract: a handler never raises into the program
            self.handleError(record)
