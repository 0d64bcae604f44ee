"""One log record as one line of JSON, and back: the format that every process of the deployment writes.

Pure; knows the order of keys and what JSON can carry. Nothing in a record, whatever it is, makes it raise,
break the line, carry a secret that is known by value or can be recognised, or make the line longer than a reader takes.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from pallas_common.secrets.patterns import REDACTED, is_secret_name, may_hold_secrets
from pallas_common.secrets.shortening import without_secrets
from pallas_common.secrets.values import KnownSecrets

FIRST_KEYS = ("time", "level", "logger", "message")
LAST_KEY = "exception"

LONGEST_LINE = 48 * 1024
"""Bytes that a record's line takes at most: fewer than the supervisor reads as one line."""

_ROOMS = (32 * 1024, 4 * 1024)
"""Characters of text in a record that is gone through; the fewer where its line is too long still, as what is not
ASCII takes six characters for one."""

_LONGEST_TEXT = _ROOMS[0] // 2
_SHORTEST_TEXT = 64
"""Characters of a text that are kept where there is no room left."""

_MOST_VALUES = 500
"""Values of a record that are gone through one by one."""

_DEPTH = 8
_LONGEST_KEY = 200
_LARGEST_INTEGER_BITS = 4096
_NONE_KNOWN = KnownSecrets()


def record_line(record: Mapping[str, object], secrets: KnownSecrets = _NONE_KNOWN) -> bytes:
    """The record as one line of JSON with its line feed.

    `time`, `level`, `logger` and `message` come first, `exception` last, the rest in its own order. Secrets
    are redacted; what JSON cannot carry is written as text; of long texts the middle is left out. Never raises.
    """
    ordered = {key: record[key] for key in FIRST_KEYS if key in record}
    ordered.update((key, value) for key, value in record.items() if key not in ordered and key != LAST_KEY)
    if LAST_KEY in record:
        ordered[LAST_KEY] = record[LAST_KEY]
    return render(ordered, secrets).encode("ascii") + b"\n"


def render(record: Mapping[str, object], secrets: KnownSecrets = _NONE_KNOWN) -> str:
    """The record as JSON in ASCII, on one line without its end, keys in the order given. Never raises.

    `secrets` are taken out, and what looks like one. It has at most `LONGEST_LINE` characters: of a longer one the
    middle of long texts is left out, and what would be too much of it still.
    """
    if not any(isinstance(value, str) and len(value) > _LONGEST_TEXT for value in record.values()):
        try:
            line = _ENCODER.encode(record)
        except (TypeError, ValueError, RecursionError):
            pass
        else:
            if len(line) <= LONGEST_LINE and not may_hold_secrets(line) and not secrets.may_be_in(line):
                return line
    try:
        for room in _ROOMS:
            line = _ENCODER.encode(_Cleaner(secrets, room).mapping(record, _DEPTH))
            if len(line) <= LONGEST_LINE:
                return line
        rest: Mapping[str, object] = {key: str(record[key]) for key in FIRST_KEYS if key in record}
        return _ENCODER.encode(_Cleaner(secrets, 0).mapping({**rest, "left_out": "all the rest"}, _DEPTH))
    except Exception as error:  # noqa: BLE001 - a record must never take its writer down
        return _ENCODER.encode(
            {"level": "ERROR", "message": f"unprintable log record: {type(error).__name__}"}
        )


def parse_record(line: bytes) -> dict[str, Any] | None:
    """The record in a line, or None if it is no JSON object: then it is raw output. Never raises."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _plain(value: object) -> object:
    """What stands for a value that JSON has no form for."""
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return str(value)
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - whatever a __repr__ raises
        return f"<{type(value).__name__}>"


class _Cleaner:
    """Makes values what a record may hold: secrets redacted, nothing that JSON cannot carry, and not too much."""

    def __init__(self, secrets: KnownSecrets, room: int) -> None:
        self._secrets = secrets
        self._room = room
        self._left = _MOST_VALUES

    def mapping(self, value: Mapping[Any, object], depth: int) -> dict[str, object]:
        cleaned: dict[str, object] = {}
        for key, item in self._some(value.items(), len(value)):
            name = key if isinstance(key, str) else str(_plain(key))
            if len(name) > _LONGEST_KEY:
                name = without_secrets(name, _LONGEST_KEY, self._secrets)
            name = self._secrets.strike(name)
            cleaned[name] = self._item(name, item, depth)
        if len(cleaned) < len(value):
            cleaned.setdefault("…", f"{len(value) - len(cleaned)} more")
        return cleaned

    def _some[T](self, items: Iterable[T], count: int) -> Iterable[T]:
        """As many of these as may still be gone through."""
        taken = min(count, self._left)
        self._left -= taken
        return islice(items, taken)

    def _item(self, name: str, value: object, depth: int) -> object:
        if is_secret_name(name) and value not in (None, "", REDACTED) and not isinstance(value, bool):
            return REDACTED
        return self._value(value, depth - 1)

    def _value(self, value: object, depth: int) -> object:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(str(value))
        if isinstance(value, int):
            return self._integer(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(value)
        if depth == 0:
            return "…"
        if isinstance(value, Mapping):
            return self.mapping(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            cleaned = [self._value(item, depth - 1) for item in self._some(value, len(value))]
            return (
                cleaned if len(cleaned) == len(value) else [*cleaned, f"… {len(value) - len(cleaned)} more"]
            )
        return self._text(str(_plain(value)))

    def _integer(self, value: int) -> object:
        if value.bit_length() > _LARGEST_INTEGER_BITS:
            return self._text(hex(value))
        return REDACTED if self._secrets.may_be_in(str(value)) else int(value)

    def _text(self, text: str) -> str:
        cleaned = without_secrets(text, max(self._room // 2, _SHORTEST_TEXT), self._secrets)
        self._room = max(self._room - len(cleaned), 0)
        return cleaned


_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, default=_plain)
