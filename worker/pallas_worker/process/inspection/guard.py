"""The process between an inspected agent and all others: bounds its time, keeps its output, leaves nothing behind.

The user's code never runs in this process: whatever it does to its own descriptors, its process group, or by forking,
the answer is written here. Knows processes and pipes, nothing of agents.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import setproctitle

from pallas_common.protocol.inspection import MOST_LINES, MOST_OUTPUT, InspectionEnd, encode
from pallas_common.protocol.spec import EXIT_FAILURE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from pallas_common.protocol.inspection import Depth, InspectionDescriptors, InspectionOrder

LAST_WORDS = 1.0
"""Seconds between SIGTERM, at which it says where it was, and SIGKILL."""
SWEEP = 5.0
"""Seconds in which all that it has started is ended; what is left then sleeps in the kernel."""
OUT_OF_THE_WAY = 900
"""Lowest number of the descriptor for its lines: libraries close the low ones of a process that they detach."""

_CHUNK = 64 * 1024
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def guard(
    order: InspectionOrder,
    descriptors: InspectionDescriptors,
    inspect: Callable[[bytes, int, Depth], object],
) -> NoReturn:
    """Have the inspected process made, see it to its end, and answer; never returns. For a process forked for this.

    Args:
        inspect: done in that process, with the specification and the descriptor for its lines.
    """
    try:
        spec = os.pread(descriptors.spec, os.fstat(descriptors.spec).st_size, 0)
        answer = _Guard(descriptors.lifeline, order.timeout).run(
            lambda lines: inspect(spec, lines, order.depth), (descriptors.spec, descriptors.answer)
        )
        if answer is not None:
            _write(descriptors.answer, encode(answer))
    finally:
        os._exit(0)


class _Guard:
    def __init__(self, lifeline: int, timeout: float) -> None:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        setproctitle.setproctitle("pallas-inspection-guard")
        adopt_orphans()
        self._lifeline = lifeline
        self._timeout = timeout
        self._lines, self._output = bytearray(), bytearray()
        self._printed = 0
        self._begun = time.monotonic()

    def run(self, inspect: Callable[[int], object], private: tuple[int, ...]) -> InspectionEnd | None:
        """Fork a process that does `inspect`, without the descriptors `private`; None if it was given up."""
        lines, lines_in = os.pipe()
        output, output_in = os.pipe()
        child = os.fork()
        if child == 0:
            for descriptor in (*private, lines, output, self._lifeline):
                os.close(descriptor)
            _be_inspected(inspect, lines_in, output_in)
        os.close(lines_in)
        os.close(output_in)
        for descriptor in (lines, output):
            os.set_blocking(descriptor, False)
        pidfd = os.pidfd_open(child)
        wanted, timed_out = self._watch(child, pidfd, lines, output)
        code = self._end_all(child)
        self._drain(lines, output)
        if not wanted:
            return None
        return InspectionEnd(
            lines=self._lines.decode("utf-8", "replace"),
            output=self._output.decode("utf-8", "replace"),
            printed=self._printed,
            status=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            timed_out=timed_out,
            seconds=time.monotonic() - self._begun,
        )

    def _watch(self, child: int, pidfd: int, lines: int, output: int) -> tuple[bool, bool]:
        """Read until it ends or its time is up; whether the answer is still wanted, and whether time was up."""
        poll = select.poll()
        for descriptor in (pidfd, lines, output, self._lifeline):
            poll.register(descriptor, select.POLLIN)
        deadline, timed_out = self._begun + self._timeout, False
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                if timed_out:
                    return True, True
                timed_out, deadline = True, time.monotonic() + LAST_WORDS
                os.kill(child, signal.SIGTERM)
                continue
            for descriptor, _ in poll.poll(max(1, left * 1000)):
                if descriptor == pidfd:
                    return True, timed_out
                if descriptor == self._lifeline:
                    return False, timed_out
                if not self._take(descriptor, is_output=descriptor == output):
                    poll.unregister(descriptor)

    def _take(self, descriptor: int, *, is_output: bool) -> bool:
        """Take in a chunk of what is there; False at the end of file, and where there is nothing now."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if is_output:
            self._printed += len(data)
            self._output += data
            del self._output[:-MOST_OUTPUT]
        else:
            self._lines += data[: MOST_LINES - len(self._lines)]
        return bool(data)

    def _drain(self, lines: int, output: int) -> None:
        until = time.monotonic() + LAST_WORDS
        for descriptor in (lines, output):
            while time.monotonic() < until and self._take(descriptor, is_output=descriptor == output):
                pass

    def _end_all(self, child: int) -> int:
        """SIGKILL it and all its descendants, which are adopted here one after the other; its exit code."""
        code = 0
        until = time.monotonic() + SWEEP
        while time.monotonic() < until:
            for pid in children():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                    # At once with those that it goes on to fork; its number is its own until it is reaped below.
                    if (group := os.getpgid(pid)) != os.getpgrp():
                        os.killpg(group, signal.SIGKILL)
            try:
                while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                    if ended[0] == child:
                        code = os.waitstatus_to_exitcode(ended[1])
            except ChildProcessError:
                break
            time.sleep(0.001)
        return code


def adopt_orphans() -> None:
    """Have descendants whose parent ends become children of this process."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _be_inspected(inspect: Callable[[int], object], lines: int, output: int) -> NoReturn:
    status = EXIT_FAILURE
    try:
        os.setsid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, standard in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(descriptor, standard)
        for descriptor in (nothing, output):
            os.close(descriptor)
        with contextlib.suppress(OSError):  # fewer descriptors are allowed
            moved = fcntl.fcntl(lines, fcntl.F_DUPFD_CLOEXEC, OUT_OF_THE_WAY)
            os.close(lines)
            lines = moved
        inspect(lines)
        status = 0
    except BaseException:  # noqa: BLE001 - nothing above this reports it
        traceback.print_exc()
    finally:
        os._exit(status)


def children() -> list[int]:
    """The children of this process, those that it has adopted included."""
    process = os.getpid()
    with contextlib.suppress(OSError):
        return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_bytes().split())]
    return []


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody waits for it any more
        while data:
            data = data[os.write(descriptor, data) :]
