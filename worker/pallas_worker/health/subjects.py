"""One thing whose health is looked at: when it is due, and its newest outcome.

Knows moments on the monotonic clock; must not know how a probe is made, nor what outcomes mean together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pallas_common.protocol.agent.settings import SLOW_AFTER
from pallas_common.protocol.reports import DownstreamHealth, ProviderHealth

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

type Outcome = DownstreamHealth | ProviderHealth
type Look = Callable[[], Awaitable[Outcome]]
"""Makes one probe."""

Condition = Literal["up", "slow", "down"]

SLOW_IN_A_ROW = 2
"""Slow probes in a row that make a subject slow. After a single one, which may be a hiccup of this machine, a server is
probed again at once."""


@dataclass(slots=True, kw_only=True)
class Subject:
    """A downstream server, or an LLM provider."""

    kind: type[Outcome]
    name: str
    """What the agent calls it."""
    look: Look | None
    """Makes a probe; None where there is nothing to ask, so that only calls show how it is."""
    interval: float
    slow_after: float = SLOW_AFTER
    """Seconds beyond which a probe is slow."""
    counts: bool = True
    """Whether the agent's health depends on it."""
    due: float = -math.inf
    """When it is probed next; never without `look`."""
    outcome: Outcome | None = None
    """Of the newest probe."""
    obstacle: str | None = None
    """Why calls cannot use it, whatever probes find; None if nothing is known of that."""
    obstacle_until: float = math.inf
    """When that is no news any more."""
    slow_in_a_row: int = 0
    """How many of the newest probes were slow."""
    proven: bool = False
    """Of a provider: whether a call has been answered."""
    failed: int = 0
    """How many attempts failed, of probes and of calls, while it was down the last time."""
    logged: Condition = "up"
    """What the log said of it last; all begin as up."""

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

    def answered(self, checked: str, now: float) -> bool:
        """A call of the provider was answered, which is as good as a probe; whether that is news."""
        news = self.condition != "up" or self.outcome is None
        self.called(None)
        self.proven = True
        self.outcome = ProviderHealth(name=self.name, up=True, checked=checked)
        self.slow_in_a_row = 0
        if self.look is not None:
            self.postpone(now)
        return news

    def lapse(self, now: float) -> bool:
        """Forget what a call found too long ago; whether there was something to forget."""
        if self.obstacle is None or now < self.obstacle_until:
            return False
        return self.called(None)

    def found(self, outcome: Outcome, begun: float) -> None:
        """A probe that began then has ended."""
        if not outcome.up:
            self._count_failure()
        elif self.kind is ProviderHealth and self.outcome is not None and not self.outcome.up:
            self.called(None)  # what calls found was of the time before; a server is attached again instead
        self.outcome = outcome
        slow = outcome.up and (outcome.latency or 0.0) > self.slow_after
        self.slow_in_a_row = self.slow_in_a_row + 1 if slow else 0
        if self.slow_in_a_row == 1 and self.kind is DownstreamHealth:
            self.due = begun

    def _count_failure(self) -> None:
        self.failed = self.failed + 1 if self.condition == "down" else 1

    def postpone(self, begun: float) -> None:
        """A probe has begun; the next one is due an interval later."""
        self.due = begun + self.interval
