"""Reports where the import of the user's module is, when the process is asked to end before it is done.

Knows signals and one thread; nothing of agents. A module may sleep, wait, or turn in a loop: its thread cannot be
counted on, but what it runs can be looked at from another one.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.reports import FailedReport
from pallas_common.protocol.spec import EXIT_FAILURE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pallas_worker.process.user_module.errors import UserCode

MAX_FRAMES = 50
"""Innermost frames in the log."""

_DONE = b"\0"
"""No signal has this number."""

_log = get_logger("pallas.worker.whereabouts")


@contextmanager
def reporting_position(code: UserCode, report: Callable[[FailedReport], None]) -> Iterator[None]:
    """While the block runs in the main thread, let SIGTERM and SIGINT end the process, with a report of where it was.

    Python's own handler in C writes each signal's number to a descriptor, at once and whatever the main thread does;
    another thread reads it there.
    """
    main = threading.get_ident()
    asked, ask = os.pipe()
    os.set_blocking(ask, False)

    def watch() -> None:
        while (number := os.read(asked, 1)) != _DONE:
            if number[0] in (signal.SIGTERM, signal.SIGINT):
                frame = sys._current_frames().get(main)  # noqa: SLF001 - its only name, and documented
                place = code.shown(frame) or "a place that cannot be told"
                report(FailedReport(message=f"it was importing, at {place}", permanent=False))
                stack = "".join(traceback.format_stack(frame)[-MAX_FRAMES:])
                _log.error(f"asked to end while it was importing, at {place}", stack=stack)
                os._exit(EXIT_FAILURE)

    watcher = threading.Thread(target=watch, name="whereabouts", daemon=True)
    watcher.start()
    before = signal.set_wakeup_fd(ask, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)
        os.write(
            ask, _DONE
        )  # closing says nothing to the reader while a child of the module holds the pipe, too
        watcher.join()
        os.close(asked)
        os.close(ask)
