"""The pipes of a worker: lines that the supervisor cannot want, at the worst of times.

They are opened by way of `/proc/PID/fd`, as the worker's own code could do it.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.faults.fuzz.material import MARK, lines
from support.faults.fuzz.watched_fleet import VICTIMS, WatchedFleet

if TYPE_CHECKING:
    import random


WRITE_TIME = 2.0
"""Seconds in which a pipe or a connection has to take what is written to it; the rest is left out."""

NOW = "2026-01-01T00:00:00.000000Z"

_CAPABILITIES = {"vision": True, "context_window": 1000, "max_output_tokens": 100}
_DOWNSTREAM = {"name": "shared", "up": False, "latency": 0.1, "error": "no", "checked": NOW}
_HEALTH = {
    "kind": "health",
    "status": "degraded",
    "timestamp": NOW,
    "message": MARK,
    "downstreams": [_DOWNSTREAM],
}

REPORTS: list[dict[str, Any]] = [
    {"kind": "stage", "stage": "importing"},
    {"kind": "ready", "model": "passthrough", "capabilities": None},
    {"kind": "ready", "model": "passthrough", "capabilities": _CAPABILITIES},
    {"kind": "failed", "message": MARK, "permanent": False},
    {"kind": "heartbeat", "interval": 5.0},
    {**_HEALTH, "provider": None},
    {**_HEALTH, "provider": {"name": "generic", "up": True, "latency": 0.1, "error": None, "checked": NOW}},
    {**_HEALTH, "downstreams": [[1]]},
]

RECORDS: list[dict[str, Any]] = [
    {
        "time": NOW,
        "level": "ERROR",
        "logger": "pallas.supervisor",
        "message": MARK,
        "agent": "calm",
        "generation": 1,
        "pid": 1,
        "exception": "Traceback (most recent call last)",
    },
    {"time": NOW, "level": "INFO", "logger": "x", "message": MARK, "previous": "ready", "state": "failed"},
]


def open_pipe(supervisor: int, worker: int, name: str) -> int:
    """Another description of one of a worker's pipes: `report`, `records` or `output`.

    The worker has more pipes, of its own; those that it shares with the supervisor were made in this order.

    Raises:
        OSError: the worker has gone.
    """
    ours = set(_pipes(supervisor))
    shared = {pipe: entry for pipe, entry in _pipes(worker).items() if pipe in ours}
    writable = sorted(pipe for pipe in shared if _access(shared[pipe]) == os.O_WRONLY)
    entry = shared[writable[("report", "records", "output").index(name)]]
    return os.open(entry, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _pipes(pid: int) -> dict[int, Path]:
    """The pipes of a process by their inodes, each with one of its descriptors."""
    found: dict[int, Path] = {}
    for entry in Path("/proc", str(pid), "fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(entry.readlink())
            if target.startswith("pipe:["):
                found[int(target[6:-1])] = entry
    return found


def _access(entry: Path) -> int:
    info = Path(str(entry).replace("/fd/", "/fdinfo/")).read_text()
    return int(info.split("flags:")[1].split()[0], 8) & os.O_ACCMODE


def write_to(descriptor: int, data: bytes) -> None:
    deadline = time.monotonic() + WRITE_TIME
    rest = memoryview(data)
    while rest and time.monotonic() < deadline:
        try:
            rest = rest[os.write(descriptor, rest[:60_000]) :]
        except BlockingIOError:
            time.sleep(0.001)  # a full pipe that is being read
        except BrokenPipeError:
            return


def _attack_pipe(fleet: WatchedFleet, rng: random.Random, pipe: str, documents: list[Any]) -> None:
    victim = rng.choice(VICTIMS)
    try:
        descriptor = open_pipe(fleet.fleet.pid, fleet.pid(victim), pipe)
    except (OSError, LookupError):  # it is dying of the round before
        return
    try:
        for _ in range(rng.choice((1, 1, 4))):
            write_to(descriptor, lines(documents, rng))
        if rng.random() < 0.4:
            fleet.kill(victim)
            if rng.random() < 0.5:
                write_to(descriptor, lines(documents, rng))
    finally:
        os.close(descriptor)


def attack_report(fleet: WatchedFleet, rng: random.Random) -> None:
    """What the worker reports of itself."""
    _attack_pipe(fleet, rng, "report", REPORTS)


def attack_records(fleet: WatchedFleet, rng: random.Random) -> None:
    """The worker's log records."""
    _attack_pipe(fleet, rng, "records", RECORDS)


def attack_output(fleet: WatchedFleet, rng: random.Random) -> None:
    """What the worker prints."""
    _attack_pipe(fleet, rng, "output", [*RECORDS, *REPORTS])
