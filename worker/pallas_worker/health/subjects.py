"""One thing whose health is looked at: when it is due, whose turn the probe is, and its newest outcome.

Knows moments on the monotonic clock; must not know how a probe is made, nor what outcomes mean together.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pallas_common.protocol.agent_settings import SLOW_AFTER
from pallas_common.protocol.notices import LONGEST_ERROR, ProbeResult
from pallas_common.protocol.reports import DownstreamHealth, ProviderHealth

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SILENCE = 5.0
"""Seconds beyond the interval for which another worker's result may be awaited: as long as any probe may take."""
SPREAD = 3.0
"""Seconds over which those are spread who have waited in vain, so that one of them is the first."""

type Outcome = DownstreamHealth | ProviderHealth
type Look = Callable[[], Awaitable[Outcome]]
"""Makes one probe."""

Condition = Literal["up", "slow", "down"]

SLOW_IN_A_ROW = 2
"""Slow probes in a row that make a subject slow. After a single one, which may be a hiccup of this machine, it is
probed again at once."""


@dataclass(slots=True, kw_only=True)
class Subject:
    """A downstream server, or an LLM provider."""

    kind: type[Outcome]
    name: str
    """What the agent calls it."""
    look: Look | None
    """Makes a probe; None where nobody can be asked, so that only calls tell how it is."""
    interval: float
    slow_after: float = SLOW_AFTER
    """Seconds beyond which a probe is slow."""
    counts: bool = True
    """Whether the agent's health depends on it."""
    target: str | None = None
    """What all who make the very same probe call it; None if nobody else does."""
    mine: bool = True
    """Whether the probe is this worker's turn."""
    due: float = -math.inf
    """When this worker probes it next; never without `look`."""
    at: float = -math.inf
    """When the probe began that the newest outcome is of."""
    outcome: Outcome | None = None
    """Of the newest probe."""
    obstacle: str | None = None
    """Why calls cannot use it, whatever probes find; None if nothing is known of that."""
    obstacle_until: float = math.inf
    """When that is no news any more."""
    slow_in_a_row: int = 0
    """How many of the newest probes were slow."""
    failed: int = 0
    """How many attempts failed, of probes and of calls, while it was down the last time."""
    told: Condition = "up"
    """What was last told of it; all begin as up."""

    def __post_init__(self) -> None:
        if self.look is None:
            self.due = math.inf

    @property
    def is_awaited(self) -> bool:
        """Whether the first outcome is still to come."""
        return self.outcome is None and self.look is not None

    @property
    def condition(self) -> Condition:
        """How it is, as far as is known."""
        if self.obstacle is not None or (self.outcome is not None and not self.outcome.up):
            return "down"
        return "slow" if self.slow_in_a_row >= SLOW_IN_A_ROW else "up"

    @property
    def state(self) -> Outcome | None:
        """The newest outcome, or that it is down where it is only calls that fail; None if nothing is known yet."""
        if self.obstacle is None or self.outcome is None or not self.outcome.up:
            return self.outcome
        return replace(self.outcome, up=False, error=self.obstacle)

    @property
    def is_obstructed(self) -> bool:
        """Whether probes find it up and calls do not."""
        return self.obstacle is not None and self.outcome is not None and self.outcome.up

    def called(self, obstacle: str | None, until: float = math.inf) -> bool:
        """A call could not use it, for this reason, or it could (None); whether that is news.

        It counts until the next call or attempt, and not beyond the moment `until`.
        """
        news = obstacle != self.obstacle
        if obstacle is not None:
            self._count_failure()
        self.obstacle, self.obstacle_until = obstacle, until
        return news

    def lapse(self, now: float) -> bool:
        """Forget what a call found too long ago; whether there was something to forget."""
        if self.obstacle is None or now < self.obstacle_until:
            return False
        return self.called(None)

    def found(self, outcome: Outcome, begun: float) -> None:
        """A probe of this worker's own has ended."""
        if begun >= self.at:
            self._take(outcome, begun)
            if self.slow_in_a_row == 1:
                self.due = begun

    def _take(self, outcome: Outcome, at: float) -> None:
        if not outcome.up:
            self._count_failure()
        elif self.kind is ProviderHealth and self.outcome is not None and not self.outcome.up:
            self.called(None)  # what calls found was of the time before; a server is attached again instead
        self.outcome, self.at = outcome, at
        slow = outcome.up and (outcome.latency or 0.0) > self.slow_after
        self.slow_in_a_row = self.slow_in_a_row + 1 if slow else 0

    def _count_failure(self) -> None:
        self.failed = self.failed + 1 if self.condition == "down" else 1

    def heard(self, result: ProbeResult, now: float) -> bool:
        """Another worker has probed; whether that is news. From now on it is that one's turn."""
        self.mine = False
        if result.at < self.at or now - result.at > self.interval + SILENCE:
            return False
        outcome = self.kind(
            name=self.name,
            up=result.up,
            latency=result.latency,
            error=result.error,
            checked=result.checked,
        )
        self._take(outcome, result.at)
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
