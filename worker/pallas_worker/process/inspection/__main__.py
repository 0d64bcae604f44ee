"""`python -m pallas_worker.process.inspection DESCRIPTOR`: the inspector of the agents of one interpreter.

Imports fast-agent once, then forks a guard for every order (`pallas_common.protocol.inspection`), as the zygote does
with workers. Knows libraries, never a user's module; one thread, no event loop.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import setproctitle

from pallas_common import __version__
from pallas_common.processes.descriptors import receive, withhold_all
from pallas_common.protocol.inspection import (
    InspectionDescriptors,
    InspectionOrder,
    InspectorReady,
    decode,
    encode,
)
from pallas_worker.process.inspection.agent import inspect_agent
from pallas_worker.process.inspection.guard import SWEEP, adopt_orphans, children, guard
from pallas_worker.process.zygote.imports import preload

if TYPE_CHECKING:
    from collections.abc import Collection


def main() -> None:
    """Take orders from the SEQPACKET socket whose descriptor is the only argument, until it closes."""
    withhold_all()
    channel = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setproctitle.setproctitle("pallas-inspector")
    adopt_orphans()  # of guards that the agent's code has killed
    preload()
    gc.disable()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # guards say themselves how they end
    channel.send(encode(InspectorReady(version=__version__)))
    guards: set[int] = set()
    while True:
        packet, numbers, _ = receive(channel, 1024, len(InspectionDescriptors._fields))
        if not packet:
            _end_orphans(guards)
            os._exit(0)
        descriptors = InspectionDescriptors(*numbers)
        guards.add(forked := _fork())
        if forked == 0:
            channel.close()
            guard(decode(InspectionOrder, packet), descriptors, inspect_agent)
        for descriptor in descriptors:
            os.close(descriptor)  # with which an order that could not be carried out has its end of file


def _end_orphans(guards: Collection[int]) -> None:
    """End what an agent's code has kept from its guard: by killing that one, or by stopping it.

    Guards end what is theirs by themselves as soon as the lifeline has ended, once they run.
    """
    until = time.monotonic() + SWEEP
    while (left := children()) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT if pid in guards else signal.SIGKILL)
        time.sleep(0.01)
    for pid in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _fork() -> int:
    """The process ID of a guard, 0 in itself, and -1 where there can be none."""
    if sum(1 for _ in Path("/proc/self/task").iterdir()) != 1:
        sys.stderr.write("the inspector has more than one thread, a fork would not be safe\n")
        return -1
    with contextlib.suppress(OSError):
        return os.fork()
    return -1


if __name__ == "__main__":
    main()
