"""How often workers probe what they need: one setting of a deployment, read from the environment."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError, Problem, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

PROBE_INTERVAL = 15.0
"""Seconds from the start of one probe to the start of the next."""
INTERVAL_VARIABLE = "PALLAS_PROBE_INTERVAL"
SHORTEST, LONGEST = 0.1, 3600.0
"""Seconds that the variable may say."""

_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{0,20})?|\.[0-9]{1,20}")


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
