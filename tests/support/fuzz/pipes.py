"""The pipes of a worker: lines that the supervisor cannot want, at the worst of times.

They are opened by way of `/proc/PID/fd`, as the worker's own code could do it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.fuzz.material import MARK, lines
from support.fuzz.watched_fleet import VICTIMS, WatchedFleet

if TYPE_CHECKING:
    import random


WRITE_TIME = 2.0
"""Seconds in which a pipe or a connection has to take what is written to it; the rest is left out."""

NOW = "2026-01-01T00:00:00.000000Z"

_RESULT = {"target": "0" * 32, "up": True, "latency": 0.1, "at": 1.0, "checked": NOW, "error": None}
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
    {"kind": "watch", "targets": ["0" * 32, "1" * 32]},
    {"kind": "watch", "targets": [[1]]},
    {"kind": "probed", "results": [_RESULT]},
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
    """Another description of one of a worker's pipes: `report`, `records` and `output` to write, `notices` to read.

    The worker has more pipes, of its own; those that it shares with the supervisor were made in this order.

    Raises:
        OSError: the worker has gone.
    """
    ours = set(_pipes(supervisor))
    shared = {pipe: entry for pipe, entry in _pipes(worker).items() if pipe in ours}
    writable = sorted(pipe for pipe in shared if _access(shared[pipe]) == os.O_WRONLY)
    readable = sorted(pipe for pipe in shared if _access(shared[pipe]) == os.O_RDONLY)
    if name == "notices":
        entry, access = shared[readable[-1]], os.O_RDONLY  # the other one is the lifeline
    else:
        entry, access = shared[writable[("report", "records", "output").index(name)]], os.O_WRONLY
    return os.open(entry, access | os.O_NONBLOCK | os.O_CLOEXEC)


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


def attack_notices(fleet: WatchedFleet, rng: random.Random) -> None:
    """The supervisor's messages to a worker are taken away, or find the pipe full, while more of them are due."""
    pid = fleet.pid(rng.choice(VICTIMS))
    with contextlib.ExitStack() as stack:
        try:
            notices, report = (open_pipe(fleet.fleet.pid, pid, name) for name in ("notices", "report"))
        except (OSError, LookupError):
            return
        stack.callback(os.close, notices)
        stack.callback(os.close, report)
        if rng.random() < 0.5:  # fill it from the other side
            filling = os.open(f"/proc/self/fd/{notices}", os.O_WRONLY | os.O_NONBLOCK)
            stack.callback(os.close, filling)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(filling, b"\n" * 4096)
        targets = [f"{rng.getrandbits(128):032x}" for _ in range(rng.choice((1, 100)))]
        for _ in range(rng.choice((1, 20))):
            results = [{**_RESULT, "target": target, "up": bool(rng.getrandbits(1))} for target in targets]
            write_to(report, json.dumps({"kind": "watch", "targets": targets}).encode() + b"\n")
            write_to(report, json.dumps({"kind": "probed", "results": results}).encode() + b"\n")
            with contextlib.suppress(BlockingIOError):
                os.read(notices, 65_536)
