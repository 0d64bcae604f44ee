"""The files of one metrics slot: who may write them, their space on the disk, their soundness.

Knows the file format of prometheus_client's multiprocess mode; must not know which metrics there are.
"""

from __future__ import annotations

import fcntl
import json
import logging
import mmap
import os
import re
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.mmap_dict import MmapedDict

if TYPE_CHECKING:
    from collections.abc import Iterator

_INITIAL_SIZE = 1 << 16
_HEADER = struct.Struct("ii")
_LENGTH = struct.Struct("i")
_VALUE_SIZE = 16
"""Bytes of an entry after its key: the value and its timestamp, two doubles."""

_log = logging.getLogger("pallas.worker.metrics")


class SlotBusyError(RuntimeError):
    """Another living process writes this slot."""


class SlotLock:
    """The right to be the only writer of a slot, held until this process ends.

    It is not shared with processes that this one forks: a child that outlives its worker does not keep the
    next worker from its slot.
    """

    def __init__(self, directory: str, slot: str) -> None:
        """Take the lock, `<directory>/<slot>.lock`.

        Raises:
            SlotBusyError: another living process holds it.
            OSError: the file cannot be opened.
        """
        self._descriptor: int | None = _locked(Path(directory, f"{slot}.lock"), slot)
        os.register_at_fork(after_in_child=self.release)

    def release(self) -> None:
        """Let go of it; harmless when that has happened."""
        if (descriptor := self._descriptor) is not None:
            self._descriptor = None
            os.close(descriptor)


def _locked(path: Path, slot: str) -> int:
    """A descriptor that holds the lock, with this process's number in the file for messages."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        who = f"process {holder}" if holder.isdecimal() else "another process"
        raise SlotBusyError(f"cannot open metrics slot {slot!r}: {who} is writing it") from None
    with suppress(OSError):  # on a full disk the message has to do without the number
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def slot_files(directory: str, slot: str) -> list[str]:
    """The value files of the slot and of processes that its worker forked, sorted."""
    ours = re.compile(rf".+_{re.escape(slot)}(\.p\d+)?\.db")
    with os.scandir(directory) as entries:
        return sorted(entry.path for entry in entries if ours.fullmatch(entry.name))


def drop_live_gauges(directory: str, slot: str) -> None:
    """Remove what the slot's previous writer said of its own state; counters and histograms stay."""
    for path in slot_files(directory, slot):
        if Path(path).name.startswith("gauge_live"):
            Path(path).unlink(missing_ok=True)


def reserve(filename: str) -> None:
    """Have a sound values file at `filename`, with all its blocks on the disk.

    An existing file is kept if it is sound, and set aside as `<filename>.damaged` if it is not. A new one
    appears under its name complete: never empty, and never to be written past the end of the disk, which
    would kill the process with SIGBUS.

    Raises:
        OSError: no space is left, or the directory cannot be written.
    """
    path = Path(filename)
    try:
        if _is_sound(path.read_bytes()):
            return
    except FileNotFoundError:
        pass
    else:
        _log.warning("metrics file %s is damaged: it is set aside and begun anew", path.name)
        path.rename(f"{filename}.damaged")
    unfinished = Path(f"{filename}.new")
    try:
        with unfinished.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, _INITIAL_SIZE)
            file.write(_HEADER.pack(_HEADER.size, 0))
        unfinished.rename(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


class ReservedFile(MmapedDict):
    """prometheus_client's values file that has its space reserved before it is written."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        if not read_mode:
            reserve(filename)
        super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]

    def _init_value(self, key: str) -> None:
        """Add an entry; raises OSError, and changes nothing, when the disk has no space for it."""
        needed = self._used + _LENGTH.size + len(key.encode()) + 8 + _VALUE_SIZE
        capacity = self._capacity
        while capacity < needed:
            capacity *= 2
        if capacity > self._capacity:
            os.posix_fallocate(self._f.fileno(), 0, capacity)
        super()._init_value(key)  # type: ignore[no-untyped-call]

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        """Set an entry; raises OSError if a fork on a full disk left this process without a file."""
        if self._m is None:
            raise OSError(f"metrics file {self._fname} is closed")
        super().write_value(key, value, timestamp)  # type: ignore[no-untyped-call]


def _is_sound(data: bytes) -> bool:
    """Whether the bytes are a values file: each entry inside the used part, its key a JSON array of four."""
    try:
        return all(len(json.loads(key)) == 4 for key in _keys(data))
    except (struct.error, ValueError, TypeError):
        return False


def _keys(data: bytes) -> Iterator[bytes]:
    """The keys of a values file; raises ValueError or struct.error where it is not one."""
    used, _ = _HEADER.unpack_from(data)
    if used > len(data) or len(data) % mmap.PAGESIZE or (used != 0 and used < _HEADER.size):
        raise ValueError("the used part is not inside the file")
    position = _HEADER.size
    while position < used:
        (length,) = _LENGTH.unpack_from(data, position)
        start = position + _LENGTH.size
        position = start + length + (8 - (length + _LENGTH.size) % 8) + _VALUE_SIZE
        if length <= 0 or position > used:
            raise ValueError("an entry reaches past the end")
        yield data[start : start + length]
