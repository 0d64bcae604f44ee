"""What workers that probe the same target pass on through the supervisor: outcomes, and which worker probes next.

A target is named by a keyed digest, which is the same for workers that would make the same probe.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError, Problem, quoted
from pallas_common.protocol.typed_json import build, read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

PROBE_INTERVAL = 15.0
"""Seconds from the start of one probe to the start of the next."""
INTERVAL_VARIABLE = "PALLAS_PROBE_INTERVAL"
SHORTEST, LONGEST = 0.1, 3600.0
"""Seconds that the variable may say."""

_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{0,20})?|\.[0-9]{1,20}")

LONGEST_ERROR = 300
"""Characters of a reason that are passed on."""
RESULTS_AT_ONCE = 5
"""Results in one notice, which so fits into what a pipe takes whole or not at all (PIPE_BUF, 4096 bytes)."""
LONGEST_TARGET = 64
"""Characters of a target's name, of which `target_name` makes half as many."""
MOST_TARGETS = 1000
"""Targets of one worker that are shared; it looks at the others by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """How one probe ended."""

    target: str
    up: bool
    latency: float
    """Seconds that it took."""
    at: float
    """When it began, in seconds on the monotonic clock, which all processes of a machine have in common."""
    checked: str
    """When it ended, as RFC 3339."""
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """From the supervisor to one worker. The results come first: a turn holds from after them."""

    results: tuple[ProbeResult, ...] = ()
    """What other workers have found."""
    turns: tuple[str, ...] = ()
    """Targets that this worker is to probe from now on."""


def encode_notice(notice: Notice) -> bytes:
    """The notice as one line of JSON, with its line feed."""
    return json.dumps(dataclasses.asdict(notice)).encode() + b"\n"


def decode_notice(line: bytes) -> Notice:
    """The notice in one line that `encode_notice` wrote.

    Raises:
        ValueError: the line is no notice.
    """
    return build(Notice, read_object(line))


def target_name(key: str, *parts: object) -> str:
    """The name of what is looked at: of no use without the key, and the same for the same parts."""
    return hmac.new(key.encode(), json.dumps(parts).encode(), hashlib.sha256).hexdigest()[:32]


def probe_interval(environ: Mapping[str, str]) -> float:
    """Seconds between two probes: `PALLAS_PROBE_INTERVAL`, or else 15.

    Raises:
        ConfigurationError: it is no such number.
    """
    given = environ.get(INTERVAL_VARIABLE)
    if not given:
        return PROBE_INTERVAL
    seconds = float(given) if _NUMBER.fullmatch(given) else math.nan
    if not SHORTEST <= seconds <= LONGEST:
        remedy = f"give a number of seconds from {SHORTEST:g} to {LONGEST:g}"
        message = f"{quoted(given)} is no interval"
        raise ConfigurationError([Problem("environment", None, INTERVAL_VARIABLE, message, remedy)])
    return seconds
