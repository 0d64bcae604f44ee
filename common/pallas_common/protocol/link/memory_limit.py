"""A worker's memory limit: what the kernel lets it allocate, and a clean end when it asks for more.

Knows this process's limits and `MemoryError`; nothing of agents, of the loop, or of who counts the memory from outside.
"""

from __future__ import annotations

import inspect
import logging
import os
import resource
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.logs.own_loggers import own_logger
from pallas_common.protocol.reports import FailedReport, encode_report
from pallas_common.protocol.spec import EXIT_OUT_OF_MEMORY
from pallas_common.sizes import describe_size

if TYPE_CHECKING:
    from types import CodeType

TOOL_ID = 4
"""Number under which this module listens to exceptions; debuggers, coverage and profilers have others."""

LAST_WORDS_TIMEOUT = 2.0
"""Seconds that the last log record may take."""

_log = own_logger("pallas.worker.memory")  # a plain one: it has to work without memory


class MemoryLimit:
    """Bounds what this process allocates, and ends it at the first `MemoryError`.

    A `MemoryError` that some library swallows would leave a worker that fails every other call. So whatever catches it,
    and wherever: the worker says "out of memory" with the place, and exits with `EXIT_OUT_OF_MEMORY`.

    Args:
        limit: bytes that may come on top of what is mapped when `count_from_here` is called.
        report: descriptor of the report pipe.
        by_group: the process's control group bounds its memory.
    """

    def __init__(self, limit: int, report: int, *, by_group: bool) -> None:
        self._limit = limit
        self._by_group = by_group
        self._report = report
        self._pid = os.getpid()
        self._ending = threading.Lock()
        message = f"out of memory: it asked for more than its memory_limit of {describe_size(limit)} leaves"
        # Made ahead: when it is needed, there is no room for it.
        self._last_report = encode_report(FailedReport(message=message, permanent=False))
        self._message = message

    def count_from_here(self) -> None:
        """Let the process allocate `limit` bytes beyond what it has mapped now.

        Private writable mappings count, touched or not (RLIMIT_DATA of getrlimit(2)), stacks of threads as well; so the
        limit is generous, and what the worker really takes is watched from outside. Processes that it starts inherit
        the limit, for themselves. Where the control group bounds the memory, this does nothing.
        """
        if self._by_group:
            return
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = _mapped() + self._limit
        resource.setrlimit(resource.RLIMIT_DATA, (soft if hard < 0 else min(soft, hard), hard))

    def end_at_memory_errors(self) -> None:
        """From now on, the first `MemoryError` of any thread ends the process."""
        monitoring = sys.monitoring
        try:
            monitoring.use_tool_id(TOOL_ID, "pallas")
        except ValueError:
            _log.warning("MemoryErrors cannot be seen: sys.monitoring has no room for another tool")
            return
        monitoring.register_callback(TOOL_ID, monitoring.events.RAISE, self._raised)
        monitoring.set_events(TOOL_ID, monitoring.events.RAISE)

    def _raised(self, _code: CodeType, _offset: int, error: BaseException) -> None:
        if (
            isinstance(error, MemoryError)
            and os.getpid() == self._pid
            and self._ending.acquire(blocking=False)
        ):
            self._end()

    def _end(self) -> None:
        try:
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))  # room for the last words
            os.write(self._report, self._last_report)
            record = _log.makeRecord(_log.name, logging.ERROR, __file__, 0, self._message, (), None)
            frame = inspect.currentframe()
            record.stack_info = "".join(
                traceback.format_stack(frame.f_back.f_back if frame and frame.f_back else None)
            )
            # In a thread of its own: the one that failed may hold the very lock that logging needs.
            speaking = threading.Thread(target=_log.handle, args=(record,), daemon=True)
            speaking.start()
            speaking.join(LAST_WORDS_TIMEOUT)
        finally:
            os._exit(EXIT_OUT_OF_MEMORY)


def _mapped() -> int:
    """Bytes of this process's private writable mappings."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
