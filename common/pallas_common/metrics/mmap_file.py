"""One file of prometheus_client's multiprocess mode: entries of a key, a value and a timestamp, one after the other.

Knows the format, and says when a file does not keep to it; must not know which metrics there are.
"""

from __future__ import annotations

import itertools
import json
import math
import mmap
import os
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HEADER = struct.Struct("ii")
"""Bytes in use, itself included; padding."""
LENGTH = struct.Struct("i")
INITIAL_SIZE = 1 << 16
MAX_BYTES = 1 << 23
"""What is read of a file: some 30,000 entries."""
_VALUE = struct.Struct("dd")
_ALIGNMENT = 8
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class DamagedError(ValueError):
    """The file is not what it should be; the message says how."""


class Series(NamedTuple):
    """What a key says."""

    family: str
    sample: str
    labels: tuple[tuple[str, str], ...]
    """Names and values, sorted by name."""
    help: str


def parse_key(key: bytes) -> Series:
    """Take a key apart.

    Raises:
        DamagedError: it is no JSON array of family, sample, labels and help.
    """
    try:
        family, sample, labels, text = json.loads(key)
        pairs = tuple(sorted(labels.items()))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"a key is none: {error}") from None
    if not all(isinstance(word, str) for word in (family, sample, text, *itertools.chain(*pairs))):
        raise DamagedError("a key is none: not all of it is text")
    return Series(family, sample, pairs, text)


def entry_size(length: int) -> int:
    """Bytes of an entry whose key is `length` bytes long; the value is aligned to 8."""
    return LENGTH.size + length + (_ALIGNMENT - (length + LENGTH.size) % _ALIGNMENT) + _VALUE.size


def keys(data: bytes | bytearray, start: int, used: int) -> Iterator[bytes]:
    """The key of each entry between `start` and `used`, as far as `data` has them.

    Raises:
        DamagedError: an entry reaches past the end.
    """
    position = start
    while position < used:
        if position + LENGTH.size > used:
            raise DamagedError("an entry reaches past the end")
        if position + LENGTH.size > len(data):
            return
        (length,) = LENGTH.unpack_from(data, position)
        if length <= 0 or position + entry_size(length) > used:
            raise DamagedError("an entry reaches past the end")
        if position + entry_size(length) > len(data):
            return
        yield bytes(data[position + LENGTH.size : position + LENGTH.size + length])
        position += entry_size(length)


def check(data: bytes) -> None:
    """Look at a whole file as the process that goes on writing it has to.

    Raises:
        DamagedError: it is no values file.
    """
    if len(data) < HEADER.size or len(data) % mmap.PAGESIZE:
        raise DamagedError(f"it has {len(data)} bytes")
    used, _ = HEADER.unpack_from(data)
    if used != 0 and not HEADER.size <= used <= len(data):
        raise DamagedError("the used part is not inside the file")
    for key in keys(data, HEADER.size, used):
        parse_key(key)


def encode(values: Iterable[tuple[bytes, float, float]]) -> bytes:
    """A whole file with these keys, values and timestamps."""
    body = bytearray(HEADER.size)
    for key, value, timestamp in values:
        padding = entry_size(len(key)) - LENGTH.size - len(key) - _VALUE.size
        body += LENGTH.pack(len(key)) + key + b" " * padding + _VALUE.pack(value, timestamp)
    HEADER.pack_into(body, 0, len(body), 0)
    return bytes(body).ljust(max(INITIAL_SIZE, math.ceil(len(body) / mmap.PAGESIZE) * mmap.PAGESIZE), b"\0")


class ValuesFile:
    """A file that others write, read again and again; what was parsed once is kept.

    It is copied by one `pread` each time and not mapped: a mapped file that is cut short kills its reader.

    Args:
        parse: makes of a key what `series` has; None for a series that is left out. Called once for each key.
    """

    def __init__(self, path: str, parse: Callable[[bytes], Series | None] = parse_key) -> None:
        self.path = path
        self.keys: list[bytes] = []
        self.series: list[Series | None] = []
        self.values: tuple[float, ...] = ()
        """One a key, as `read` last found them."""
        self.version = 0
        """How many times `read` has found something new."""
        self.is_full = False
        """Whether there is more in it than is read."""
        self._parse = parse
        self._data = bytearray()
        self._used = HEADER.size
        self._layout = self._times = struct.Struct("")
        self._lengths: tuple[int, ...] = ()

    @property
    def timestamps(self) -> tuple[float, ...]:
        """One a key, in seconds since the epoch; 0 for a gauge that was never set, and for what is no gauge."""
        gaps = (entry_size(length) - _ALIGNMENT for length in self._lengths)
        if self._times.size != self._layout.size:
            self._times = struct.Struct(f"{HEADER.size}x" + "".join(f"{gap}xd" for gap in gaps))
        return self._times.unpack_from(self._data)

    def read(self) -> None:
        """Take in what the file says now, of its first `MAX_BYTES`.

        Raises:
            DamagedError: it is no values file; what was read before stays.
            OSError: it cannot be read; FileNotFoundError, it is gone.
        """
        descriptor = os.open(self.path, _FLAGS)
        try:
            data, used = self._copy(descriptor)
        finally:
            os.close(descriptor)
        if data == self._data:
            return
        if self._layout.unpack_from(data)[::2] != self._lengths:
            raise DamagedError("it was written over")
        if len(data) > self._used:
            self._grow(data, used)
        self._data = data
        self.values = self._layout.unpack_from(data)[1::2]
        self.version += 1

    def _copy(self, descriptor: int) -> tuple[bytearray, int]:
        """The used part of the file as far as it is read, and the size of all of that part."""
        data = bytearray(self._used)
        got = os.preadv(descriptor, [data], 0)
        if got < HEADER.size:
            raise DamagedError(f"it has {got} bytes")
        used = HEADER.unpack_from(data)[0] or HEADER.size  # 0 until its writer has begun
        if used > self._used and not self.is_full:
            if used > os.fstat(descriptor).st_size:
                raise DamagedError("the used part is not inside the file")
            data = bytearray(min(used, MAX_BYTES))
            got = os.preadv(descriptor, [data], 0)
        if used < self._used or got < len(data):
            raise DamagedError("it was cut short")
        if used % _ALIGNMENT:
            raise DamagedError("an entry reaches past the end")
        return data, used

    def _grow(self, data: bytearray, used: int) -> None:
        new = list(keys(data, self._used, used))
        self.series += [self._parse(key) for key in new]  # before anything else changes: it may raise
        self.keys += new
        self._lengths = tuple(len(key) for key in self.keys)
        # Lengths and values in one call, with everything between them passed over.
        gaps = (entry_size(length) - LENGTH.size - _VALUE.size for length in self._lengths)
        self._layout = struct.Struct(f"{HEADER.size}x" + "".join(f"i{gap}xd{_ALIGNMENT}x" for gap in gaps))
        self._used = self._layout.size
        self.is_full = self._used < used
        del data[self._used :]
