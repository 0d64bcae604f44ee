"""RFC 3339 times in UTC: `2026-03-12T10:00:00Z`. Pure."""

from __future__ import annotations

import datetime as dt


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
