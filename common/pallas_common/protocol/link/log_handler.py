"""The worker's log handler: each record one line on the records pipe, never waiting, drops counted.

Knows the pipe and the one log format's formatter; nothing of who reads.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallas_common.protocol.link.line_writer import LineWriter


class RecordHandler(logging.Handler):
    """Hands formatted records to the supervisor; says how many were lost as soon as there is room again."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer
        self._reported = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; the standard library handles one that cannot be formatted."""
        try:
            self._writer.write(self.format(record).encode("utf-8", "replace") + b"\n")
        except Exception:  # noqa: BLE001 - logging's contract: a handler never raises into the program
            self.handleError(record)
            return
        if (dropped := self._writer.dropped) != self._reported:
            self._reported = dropped
            lost = logging.makeLogRecord(
                {
                    "name": "pallas.worker.records",
                    "levelno": logging.WARNING,
                    "levelname": "WARNING",
                    "msg": f"log records lost so far because the log pipe was full: {dropped}",
                }
            )
            self._writer.write(self.format(lost).encode() + b"\n")
