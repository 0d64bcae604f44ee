"""A worker's process, or the zygote that forks them, as the product has them but for the log, which is kept raw.

What the tests read is what reached the log: not redacted yet, and with no library quieted. Run as a program:
`main.py zygote CHANNEL` or `main.py worker SPEC,LISTEN,LIFELINE,REPORT,RECORDS,OUTPUT`.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING
from unittest import mock

from pallas_common.logs.own_loggers import own_logger
from pallas_worker.process import own_interpreter as executed
from pallas_worker.process import run
from pallas_worker.process.zygote import __main__ as zygote

if TYPE_CHECKING:
    from pallas_common.logs.levels import Levels


class RawFormatter(logging.Formatter):
    """One JSON object a line, with nothing taken out."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "name": record.name,
            "level": record.levelname,
            "message": record.getMessage(),
            "conversation_id": getattr(record, "conversation_id", None),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def keep_raw(handler: logging.Handler, limits: Levels, *_more: object) -> None:
    """Send the records of all libraries to `handler`; stands in for `configure_logging`."""
    handler.setFormatter(RawFormatter())
    logging.basicConfig(level=limits.root, handlers=[handler], force=True)
    own_logger().setLevel(limits.pallas)


if __name__ == "__main__":
    mock.patch.object(run, "configure_logging", keep_raw).start()
    # What is forked ahead would be adopted by init: the tests adopt only while they ask for a worker.
    mock.patch.object(zygote, "QUIET", None).start()
    {"zygote": zygote.main, "worker": executed.main}[sys.argv.pop(1)]()
