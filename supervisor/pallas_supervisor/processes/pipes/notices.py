"""The pipes on which workers hear from the supervisor. Knows descriptors; nothing of what a notice means.

A worker that does not read cannot hold up the supervisor: what its pipe does not take is lost to it.
"""

from __future__ import annotations

import contextlib
import os
import select
from typing import TYPE_CHECKING

from pallas_common.protocol.notices import RESULTS_AT_ONCE, Notice, encode_notice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pallas_supervisor.lifecycle.states import WorkerId


class NoticePipes:
    """One pipe down to each worker."""

    def __init__(self) -> None:
        self._writers: dict[WorkerId, int] = {}

    def open(self, worker_id: WorkerId) -> int:
        """Make the worker's pipe; the end to read from, which the caller closes."""
        self.close(worker_id)
        theirs, ours = os.pipe()
        os.set_blocking(theirs, False)
        os.set_blocking(ours, False)
        self._writers[worker_id] = ours
        return theirs

    def send(self, worker_id: WorkerId, notice: Notice) -> None:
        """Write a notice to the worker, if it is there and its pipe takes it."""
        if (writer := self._writers.get(worker_id)) is None:
            return
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            for part in _parts(notice):
                line = encode_notice(part)
                if (
                    len(line) <= select.PIPE_BUF
                ):  # else it might be taken in part, and what follows be part of it
                    os.write(writer, line)

    def close(self, worker_id: WorkerId) -> None:
        """Let go of the pipe, if there is one."""
        if (writer := self._writers.pop(worker_id, None)) is not None:
            os.close(writer)


def _parts(notice: Notice) -> Iterator[Notice]:
    """The same in notices that a pipe takes whole, in their order."""
    for begin in range(0, len(notice.results), RESULTS_AT_ONCE):
        yield Notice(results=notice.results[begin : begin + RESULTS_AT_ONCE])
    for begin in range(0, len(notice.turns), RESULTS_AT_ONCE):
        yield Notice(turns=notice.turns[begin : begin + RESULTS_AT_ONCE])
