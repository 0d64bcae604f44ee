"""Which worker a log record is from. The supervisor says so, not the record: an agent's code can write anything.

Pure; knows the one log format. The record's own time is kept if it is plausible. What else it says differently stays
in it, under the key with `_` at its end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.times import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

OUTPUT = "pallas.output"
"""The logger of what an agent prints, and of records with a logger name that no worker has."""

_NOT_THEIRS = re.compile(r"(?:pallas\.supervisor|pallas\.output|pallasctl)(?:\..*)?", re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)

PAST, FUTURE = 60.0, 1.0
"""Seconds by which a record's own time may differ: it may have waited in the pipe."""

_LONGEST_LEVEL = 16
_LONGEST_LOGGER = 256


class Writer(NamedTuple):
    """The worker at the other end of a pipe."""

    agent: str
    generation: int
    pid: int | None
    """None while it is not known yet: what the record says is kept then."""


def attributed(record: Mapping[str, object], writer: Writer, now: float) -> dict[str, object]:
    """The record as the log has it: whatever it says of where it is from, it is from `writer`."""
    level, logger, message = record.get("level"), record.get("logger"), record.get("message", "")
    said: dict[str, object] = {
        "time": _time(record.get("time"), now),
        "level": level if isinstance(level, str) and 0 < len(level) <= _LONGEST_LEVEL else "INFO",
        "logger": logger if _is_theirs(logger) else OUTPUT,
        "message": message if isinstance(message, str) else repr(message),
        "agent": writer.agent,
        "generation": writer.generation,
    }
    if writer.pid is not None:
        said["pid"] = writer.pid
    for key, value in record.items():
        if key not in said:
            said[key] = value
        elif key != "message" and value != said[key]:
            said.setdefault(f"{key}_", value)
    return said


def raw_record(text: str, writer: Writer, now: float) -> dict[str, object]:
    """The record of a line that the worker, or what it has started, has printed."""
    return {
        "time": timestamp(now),
        "level": "INFO",
        "logger": OUTPUT,
        "message": text,
        "agent": writer.agent,
        "generation": writer.generation,
    }


def _is_theirs(logger: object) -> bool:
    return (
        isinstance(logger, str) and 0 < len(logger) <= _LONGEST_LOGGER and not _NOT_THEIRS.fullmatch(logger)
    )


def _time(own: object, now: float) -> str:
    """The record's own time if it can be true, or else `now`; as text, RFC 3339 times of one form compare as times."""
    if (
        isinstance(own, str)
        and _TIME.fullmatch(own)
        and timestamp(now - PAST) <= own <= timestamp(now + FUTURE)
    ):
        return own
    return timestamp(now)
