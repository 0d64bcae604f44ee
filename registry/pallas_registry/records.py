"""One log record as one line of JSON, and back: the format that every process of the deployment writes.

Pure; knows the order of keys and what JSON can carry. Nothing in a record, whatever it is, makes it raise,
break the line or carry a secret that is known by value or can be recognised.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from collections.abc import Mapping
from typing import Any

from pallas_registry.known_secrets import KnownSecrets
from pallas_registry.redaction import REDACTED, is_secret_name, may_hold_secrets, redact

FIRST_KEYS = ("time", "level", "logger", "message")
LAST_KEY = "exception"

_DEPTH = 8
_LARGEST_INTEGER_BITS = 4096
_NONE_KNOWN = KnownSecrets()


def record_line(record: Mapping[str, object], secrets: KnownSecrets = _NONE_KNOWN) -> bytes:
    """The record as one line of JSON with its line feed.

    `time`, `level`, `logger` and `message` come first, `exception` last, the rest in its own order. Secrets
    are redacted; what JSON cannot carry is written as text. Never raises.
    """
    ordered = {key: record[key] for key in FIRST_KEYS if key in record}
    ordered.update((key, value) for key, value in record.items() if key not in ordered and key != LAST_KEY)
    if LAST_KEY in record:
        ordered[LAST_KEY] = record[LAST_KEY]
    return render(ordered, secrets).encode("ascii") + b"\n"


def render(record: Mapping[str, object], secrets: KnownSecrets = _NONE_KNOWN) -> str:
    """The record as JSON in ASCII, on one line without its end, keys in the order given. Never raises.

    `secrets` are taken out, and what looks like one.
    """
    try:
        line = _ENCODER.encode(record)
    except (TypeError, ValueError, RecursionError):
        pass
    else:
        if not may_hold_secrets(line) and not secrets.may_be_in(line):
            return line
    try:
        return _ENCODER.encode(_clean(record, _DEPTH, secrets))
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


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC with microseconds: `2026-03-12T10:00:00.000000Z`."""
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


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
    except Exception:  # noqa: BLE001 - somebody else's __repr__
        return f"<{type(value).__name__}>"


def _clean(value: object, depth: int, secrets: KnownSecrets) -> object:
    """The value with secrets redacted and nothing left that JSON cannot carry."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return redact(secrets.strike(str(value)))
    if isinstance(value, int):
        return _clean_integer(value, secrets)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {
            _text(key, secrets): _clean_item(_text(key, secrets), item, depth, secrets)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(item, depth - 1, secrets) for item in value]
    return redact(secrets.strike(str(_plain(value))))


def _clean_integer(value: int, secrets: KnownSecrets) -> object:
    if value.bit_length() > _LARGEST_INTEGER_BITS:
        return hex(value)
    return REDACTED if secrets.may_be_in(str(value)) else int(value)


def _clean_item(key: str, value: object, depth: int, secrets: KnownSecrets) -> object:
    if is_secret_name(key) and value not in (None, "", REDACTED) and not isinstance(value, bool):
        return REDACTED
    return _clean(value, depth - 1, secrets)


def _text(key: object, secrets: KnownSecrets) -> str:
    return secrets.strike(key if isinstance(key, str) else str(_plain(key)))


_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, default=_plain)
