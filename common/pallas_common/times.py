"""RFC 3339 times in UTC, `2026-03-12T10:00:00Z`, and durations as people write them, `1h30m`. Pure."""

from __future__ import annotations

import datetime as dt
import re

_DURATION = re.compile(
    r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)s?)?"
)
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def rfc3339(moment: dt.datetime, resolution: str = "seconds") -> str:
    """The time, cut to its `resolution`.

    Args:
        moment: with a time zone.
        resolution: `seconds`, `milliseconds` or `microseconds`.
    """
    return moment.astimezone(dt.UTC).isoformat(timespec=resolution).replace("+00:00", "Z")


def timestamp(seconds: float) -> str:
    """Seconds since the epoch with microseconds: `2026-03-12T10:00:00.000000Z`."""
    return rfc3339(dt.datetime.fromtimestamp(seconds, dt.UTC), "microseconds")


def ago(seconds: float = 0.0) -> str:
    """The moment so many seconds ago, on the wall clock, with milliseconds."""
    moment = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=seconds)
    return f"{moment.isoformat(timespec='milliseconds')[: -len('+00:00')]}Z"


def parse_duration(text: str) -> float | None:
    """Seconds in `90d`, `10m`, `1h30m` or `90`; None if it is no duration."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        return None
    days, hours, minutes, seconds = match.groups(default="0")
    return int(days) * _DAY + int(hours) * _HOUR + int(minutes) * _MINUTE + float(seconds)
