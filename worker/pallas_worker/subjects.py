"""One thing whose health is looked at: when it is due, whose turn the probe is, and its newest outcome.

Knows moments on the monotonic clock; must not know how a probe is made, nor what outcomes mean together.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_registry.probe_sharing import LONGEST_ERROR, ProbeResult
from pallas_registry.protocol import DownstreamHealth, ProviderHealth

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SILENCE = 5.0
"""Seconds beyond the interval for which another worker's result may be awaited: as long as any probe may take."""
SPREAD = 3.0
"""Seconds over which those are spread who have waited in vain, so that one of them is the first."""

type Outcome = DownstreamHealth | ProviderHealth
type Look = Callable[[], Awaitable[Outcome | None]]
"""Makes one probe; None if there is nothing to probe."""


@dataclass(slots=True, kw_only=True)
class Subject:
    """A downstream server, or the active LLM provider."""

    kind: type[Outcome]
    name: str
    """What the agent calls it; the provider's is known with its first outcome."""
    look: Look
    interval: float
    target: str | None = None
    """What all who make the very same probe call it; None if nobody else does."""
    mine: bool = True
    """Whether the probe is this worker's turn."""
    due: float = -math.inf
    """When this worker probes it next."""
    at: float = -math.inf
    """When the probe began that the newest outcome is of."""
    outcome: Outcome | None = None
    told_up: bool = True
    """What was last told of it; all begin as up."""

    @property
    def known(self) -> bool:
        """Whether there is an outcome, which may be that there is nothing to probe."""
        return self.at > -math.inf

    def found(self, outcome: Outcome | None, begun: float) -> None:
        """A probe of this worker's own has ended."""
        if begun >= self.at:
            self.outcome, self.at = outcome, begun

    def heard(self, result: ProbeResult, now: float) -> bool:
        """Another worker has probed; whether that is news. From now on it is that one's turn."""
        self.mine = False
        if result.at < self.at or now - result.at > self.interval + SILENCE:
            return False
        self.outcome = self.kind(
            name=self.name,
            up=result.up,
            latency=result.latency,
            error=result.error,
            checked=result.checked,
        )
        self.at = result.at
        self.wait(result.at + self.interval)
        return True

    def wait(self, since: float) -> None:
        """Somebody else's result should come soon after `since`; without one, this worker probes."""
        self.due = since + SILENCE + random.uniform(0.0, SPREAD)  # noqa: S311 - no secret

    def take_turn(self) -> None:
        """The probe is this worker's turn from now on."""
        self.mine = True
        self.due = self.at + self.interval

    def postpone(self, begun: float) -> None:
        """A probe has begun; the next one is due an interval later."""
        self.due = begun + self.interval

    def result(self) -> ProbeResult | None:
        """The newest outcome as other workers are told of it."""
        if self.target is None or self.outcome is None:
            return None
        return ProbeResult(
            target=self.target,
            up=self.outcome.up,
            latency=self.outcome.latency or 0.0,
            at=self.at,
            checked=self.outcome.checked or "",
            error=self.outcome.error and self.outcome.error[:LONGEST_ERROR],
        )
