"""Making a process the writer of its slot: from then on prometheus_client's values go into the slot's files."""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import values

from pallas_common.metrics.writing.slot_files import (
    ReservedFile,
    SlotLock,
    Upkeep,
    drop_live_gauges,
    reserve,
)

KINDS = ("counter", "histogram", "gauge_livemostrecent", "gauge_livesum")


def open_files(directory: str, slot: str) -> None:
    """Have all files of the slot, where its last writer stopped; series that are made afterwards are in them.

    A process that is forked from this one writes files of its own, `<slot>.p<pid>`.

    Raises:
        OSError: they cannot be made; nothing has changed.
        SlotBusyError: another living process writes this slot.
    """
    owner = os.getpid()
    lock = SlotLock(directory, slot)
    try:
        drop_live_gauges(directory, slot)
        for kind in KINDS:
            reserve(f"{directory}/{kind}_{slot}.db")
    except OSError:
        lock.release()
        raise
    vars(values)["os"] = _Surroundings(directory)
    ReservedFile.upkeep = Upkeep(directory, lock)
    values.MmapedDict = ReservedFile  # type: ignore[attr-defined]  # imported there, not exported
    values.ValueClass = values.MultiProcessValue(  # type: ignore[no-untyped-call]  # its library has no types
        lambda: slot if (pid := os.getpid()) == owner else f"{slot}.p{pid}"
    )


class _Surroundings:
    """The module `os` as prometheus_client's values see it: where the files are is not for the environment to say.

    An agent's code may clear that. And what it starts has that, too: a program that counts with prometheus_client would
    leave files there that nobody reads.
    """

    def __init__(self, directory: str) -> None:
        self.environ = {"PROMETHEUS_MULTIPROC_DIR": directory}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)
