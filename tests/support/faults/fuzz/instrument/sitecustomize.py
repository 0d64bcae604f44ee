"""Imported by Python itself at the start of each process of a watched fleet: measures the supervisor's event loop.

Writes one line of JSON for each stall of the loop and for each exception that reaches the loop's handler into the file
that `PALLAS_TEST_LOOP_REPORT` names. Time in which the process could have run and got no processor does not count: what
else the machine does is no fault of the supervisor's. Knows asyncio; nothing of Pallas but its command's name.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

LIMIT = 0.1
"""Seconds that one turn of the loop may take."""


def _is_supervisor() -> bool:
    return any(Path(argument).name == "pallas" for argument in sys.orig_argv[1:3])


def _watch(report: str) -> None:
    import asyncio
    import json
    import selectors
    import traceback

    waited = _Waited()
    slowest = (0.0, "")

    def write(**fields: object) -> None:
        with Path(report).open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), **fields}) + "\n")

    select = selectors.EpollSelector.select

    def watched_select(self: selectors.EpollSelector, timeout: float | None = None) -> object:
        nonlocal slowest
        begun = self.__dict__.get("turn_begun")
        if begun is not None:
            seconds = time.perf_counter() - begun[0] - (waited.seconds() - begun[1])
            if seconds > LIMIT:
                cpu = time.thread_time() - begun[2]
                write(kind="stall", seconds=seconds, cpu=cpu, slowest=slowest[1])
        result = select(self, timeout)
        slowest = (0.0, "")
        self.__dict__["turn_begun"] = (time.perf_counter(), waited.seconds(), time.thread_time())
        return result

    selectors.EpollSelector.select = watched_select  # type: ignore[assignment,method-assign]  # to measure it

    run = asyncio.Handle._run

    def watched_run(self: asyncio.Handle) -> None:
        nonlocal slowest
        begun = time.perf_counter()
        try:
            run(self)
        finally:
            if (seconds := time.perf_counter() - begun) > slowest[0]:
                slowest = (seconds, "" if seconds < LIMIT / 4 else repr(self)[:500])

    asyncio.Handle._run = watched_run  # type: ignore[method-assign]  # to measure it

    handle = asyncio.BaseEventLoop.call_exception_handler

    def watched_handle(self: asyncio.BaseEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        lines = traceback.format_exception(error) if isinstance(error, BaseException) else []
        write(kind="exception", message=str(context.get("message")), traceback="".join(lines)[-3000:])
        handle(self, context)

    asyncio.BaseEventLoop.call_exception_handler = watched_handle  # type: ignore[method-assign]  # to measure it


class _Waited:
    """Seconds that this process's main thread has waited for a processor while it could have run (schedstat)."""

    def __init__(self) -> None:
        self._descriptor = -1
        self._pid = 0

    def seconds(self) -> float:
        if self._pid != os.getpid():  # a fork has the descriptor of its parent's file
            self._pid = os.getpid()
            if self._descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(self._descriptor)
            self._descriptor = os.open(f"/proc/self/task/{self._pid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.pread(self._descriptor, 100, 0).split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0


if (_report := os.environ.get("PALLAS_TEST_LOOP_REPORT")) and _is_supervisor():
    _watch(_report)
