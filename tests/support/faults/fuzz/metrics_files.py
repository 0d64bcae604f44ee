"""The files in which a worker counts: damaged, exchanged and removed while they are scraped."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import struct
from typing import TYPE_CHECKING

from support.faults.fuzz.material import MARK, deep, mangled, mutated
from support.faults.fuzz.watched_fleet import VICTIMS, BrokenError, WatchedFleet
from support.fleet.fleet import PATIENCE

if TYPE_CHECKING:
    import random
    from pathlib import Path


def attack_metrics(fleet: WatchedFleet, rng: random.Random) -> None:
    """A worker's files are damaged, exchanged and removed while they are scraped; strange ones lie beside them."""
    directory = fleet.metrics_directory
    ours = [path for path in directory.glob("*.db") if _is_victims(path)]
    if ours:
        _damage(rng.choice(ours), rng)
    if rng.random() < 0.3:
        _add_strange_file(directory, rng)
    for _ in range(rng.choice((1, 3))):
        with contextlib.suppress(OSError, BrokenError):
            socket_ = socket.create_connection(
                ("127.0.0.1", fleet.deployment.document["registry_port"]), PATIENCE
            )
            with socket_:
                accept = rng.choice(("text/plain", "application/openmetrics-text", "*/*"))
                socket_.sendall(
                    f"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\n\r\n".encode()
                )
                while socket_.recv(65_536):
                    pass
    # What is damaged beyond repair stays so until the worker is another one.
    fleet.kill(rng.choice(VICTIMS))
    for path in directory.glob(f"*{MARK}*"):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _is_victims(path: Path) -> bool:
    """Whether the worker that writes this file is a victim's: its keys say whose they are."""
    with contextlib.suppress(OSError):
        data = _beginning(path)
        return (
            b'"calm"' not in data
            and b'"dependent"' not in data
            and any(f'"{name}"'.encode() in data for name in VICTIMS)
        )
    return False


def _beginning(path: Path) -> bytes:
    # The round before may have made it endless, or a pipe that nobody writes to.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, 500_000) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)


def _damage(path: Path, rng: random.Random) -> None:
    with contextlib.suppress(OSError):
        data = bytearray(_beginning(path))
        used = min(max(struct.unpack_from("i", data)[0] if len(data) >= 4 else 0, 0), len(data))
        what = rng.randrange(11)
        if what == 0:
            os.truncate(path, rng.choice((0, 1, 4, 8, used // 2, used + 100_000, 2**31)))
        elif what == 1:
            _write_in_place(
                path, 0, struct.pack("i", rng.choice((-1, 0, 4, 7, 2**31 - 1, used + 8, used - 8)))
            )
        elif what == 2 and used > 16:
            _write_in_place(path, 8, mangled(bytes(data[8:used]), rng))
        elif what == 3 and used > 16:
            _write_in_place(path, rng.randrange(8, used), rng.randbytes(rng.randrange(1, 64)))
        elif what == 4:
            path.unlink()
        elif what == 5:
            path.unlink()
            os.mkfifo(path)
        elif what == 6:
            path.unlink()
            path.symlink_to(rng.choice(("/dev/zero", "/etc/passwd", path.name, "/proc/self/mem")))
        elif what == 7:
            path.unlink()
            path.mkdir()
        else:
            keys = [_hostile_key(path, rng) for _ in range(rng.choice((1, 20, 400)))]
            body = b"".join(_entry(key, rng) for key in keys)[: 512 * 1024]
            _write_in_place(path, 0, struct.pack("ii", 8 + len(body), 0) + body)


def _write_in_place(path: Path, offset: int, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.pwrite(descriptor, data, offset)
    finally:
        os.close(descriptor)


def _hostile_key(path: Path, rng: random.Random) -> bytes:
    names = (
        "jobs.done",
        "jobs_done",
        "pallas_send_message_total",
        "pallas.up",
        "x_bucket",
        "x",
        "",
        "a b",
        "up",
        MARK,
    )
    name = rng.choice(names)
    labels = {
        rng.choice(("agent", "le", "http.method", "http_method", "", "x")): rng.choice(
            ("calm", "victim", "inf", "\n", '"')
        )
    }
    key = [
        name,
        name + rng.choice(("", "_total", "_sum", "_bucket")),
        labels,
        rng.choice(("help", "a\nb", "\\", "")),
    ]
    data = json.dumps(mutated(key, rng) if rng.random() < 0.3 else key).encode("utf-8", "replace")
    if rng.random() < 0.1:
        return deep(rng, 60_000)
    return mangled(data, rng) if rng.random() < 0.1 else data


def _entry(key: bytes, rng: random.Random) -> bytes:
    padded = key + b" " * (8 - (len(key) + 4) % 8)
    value = rng.choice((0.0, 1.0, -5.0, float("nan"), float("inf"), 1e308))
    return struct.pack("i", len(padded)) + padded + struct.pack("dd", value, 0.0)


def _add_strange_file(directory: Path, rng: random.Random) -> None:
    name = rng.choice(
        (f"counter_{MARK}.db", f"{MARK}", f"histogram_{MARK}.p1.db", f".{MARK}.db", f"gauge_all_{MARK}.db")
    )
    path = directory / name
    with contextlib.suppress(FileExistsError):
        kind = rng.randrange(4)
        if kind == 0:
            path.write_bytes(rng.randbytes(100))
        elif kind == 1:
            os.mkfifo(path)
        elif kind == 2:
            path.mkdir()
        else:
            path.symlink_to("/dev/zero")
