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

from harness.fuzz.material import MARK, lines
from harness.fuzz.watched_fleet import VICTIMS, BrokenError, WatchedFleet

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


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


def open_pipe(pid: int, wanted: Callable[[int, int], bool]) -> int | None:
    """Another description of the first pipe of a process of which `wanted(number, flags)` holds."""
    for entry in sorted(Path("/proc", str(pid), "fd").iterdir(), key=lambda path: int(path.name)):
        with contextlib.suppress(OSError):
            if not str(entry.readlink()).startswith("pipe:"):
                continue
            info = Path("/proc", str(pid), "fdinfo", entry.name).read_text()
            flags = int(info.split("flags:")[1].split()[0], 8)
            if wanted(int(entry.name), flags):
                return os.open(entry, (flags & os.O_ACCMODE) | os.O_NONBLOCK | os.O_CLOEXEC)
    return None


def is_output(number: int, _flags: int) -> bool:
    return number == 1


def is_report(number: int, flags: int) -> bool:
    return number > 2 and flags & os.O_ACCMODE == os.O_WRONLY and not flags & os.O_NONBLOCK


def is_records(number: int, flags: int) -> bool:
    return number > 2 and flags & os.O_ACCMODE == os.O_WRONLY and bool(flags & os.O_NONBLOCK)


def _is_notices(number: int, flags: int) -> bool:
    return number > 2 and flags & os.O_ACCMODE == os.O_RDONLY


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


def _attack_pipe(
    fleet: WatchedFleet, rng: random.Random, wanted: Callable[[int, int], bool], documents: list[Any]
) -> None:
    victim = rng.choice(VICTIMS)
    try:
        descriptor = open_pipe(fleet.pid(victim), wanted)
    except FileNotFoundError:  # it died of the round before
        return
    if descriptor is None:
        raise BrokenError(f"the worker of {victim} has no such pipe")
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
    _attack_pipe(fleet, rng, is_report, REPORTS)


def attack_records(fleet: WatchedFleet, rng: random.Random) -> None:
    _attack_pipe(fleet, rng, is_records, RECORDS)


def attack_output(fleet: WatchedFleet, rng: random.Random) -> None:
    _attack_pipe(fleet, rng, is_output, [*RECORDS, *REPORTS])


def attack_notices(fleet: WatchedFleet, rng: random.Random) -> None:
    """The supervisor's messages to a worker are taken away, or find the pipe full, while more of them are due."""
    victim = rng.choice(VICTIMS)
    pid = fleet.pid(victim)
    with contextlib.suppress(FileNotFoundError):
        notices = open_pipe(pid, _is_notices)
        report = open_pipe(pid, is_report)
        assert notices is not None
        assert report is not None
        try:
            watch = {
                "kind": "watch",
                "targets": [f"{rng.getrandbits(128):032x}" for _ in range(rng.choice((1, 500)))],
            }
            if rng.random() < 0.5:
                own = Path("/proc", str(pid), "fd")
                for entry in own.iterdir():  # fill it from the other side
                    if str(entry.readlink()) == f"pipe:[{os.fstat(notices).st_ino}]":
                        filling = os.open(entry, os.O_WRONLY | os.O_NONBLOCK)
                        with contextlib.suppress(BlockingIOError):
                            while True:
                                os.write(filling, b"\n" * 4096)
                        os.close(filling)
                        break
            for _ in range(rng.choice((1, 20))):
                results = [
                    {**_RESULT, "target": target, "up": bool(rng.getrandbits(1))}
                    for target in watch["targets"]
                ]
                write_to(report, json.dumps(watch).encode() + b"\n")
                write_to(report, json.dumps({"kind": "probed", "results": results}).encode() + b"\n")
                with contextlib.suppress(BlockingIOError):
                    os.read(notices, 65_536)
        finally:
            os.close(notices)
            os.close(report)
