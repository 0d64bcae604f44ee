"""How much a principal may take, and all of its tenant together: requests in a minute, and at a time.

Asked before a request's body is read. What stays open, a stream, gives its place back. Pure but for what it counts.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Literal

from pallas_gateway.identity.gcra import Rates

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_common.protocol.gateway import Limits
    from pallas_gateway.identity.principal import Principal

LimitKind = Literal["rate", "concurrency", "tenant_rate", "tenant_concurrency", "subscriptions"]

RETRY_PLACE = 1.0
"""Seconds after which a place may be free: nobody knows."""


class LimitExceededError(Exception):
    """One limit is reached: 429."""

    def __init__(self, kind: LimitKind, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after
        """Seconds."""


class Limiter:
    """Counts what principals take.

    Args:
        monotonic: in seconds.
    """

    def __init__(self, limits: Limits, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._monotonic = monotonic
        self._rates = Rates(limits.requests_per_minute)
        self._tenant_rates = Rates(limits.tenant_requests_per_minute)
        self._subscribing = Rates(limits.subscriptions_per_minute)
        self._running: Counter[str] = Counter()
        self._tenant_running: Counter[str] = Counter()

    def enter(self, principal: Principal) -> Callable[[], None]:
        """Count one request; the function that gives its place back, harmless when called again.

        Of an agent's own token only those at a time count: as many as others have for each turn that the agent may have
        at a time, because a model calls several tools at once, of each turn. They take nothing of their tenant: agents
        that call each other for somebody would otherwise keep each other from ending.

        Raises:
            LimitExceededError: there is no room, or it comes too early; nothing is counted then.
        """
        own = principal.concurrent
        most = self.limits.concurrent if own is None else self.limits.concurrent * own
        if self._running[principal.id] >= most:
            raise LimitExceededError(
                "concurrency",
                f"{most} requests of {principal.name} are under way, which is the limit; wait for one of them",
                RETRY_PLACE,
            )
        if own is None:
            self._enter_tenant(principal)
        return self.hold(principal)

    def hold(self, principal: Principal) -> Callable[[], None]:
        """Count what goes on by itself, as a turn without its client: it takes the place that its request gives back.

        Returns:
            The function that gives the place back, harmless when called again.
        """
        own = principal.concurrent
        if own is None:
            self._tenant_running[principal.tenant] += 1
        self._running[principal.id] += 1
        is_open = True

        def leave() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                _less(self._running, principal.id)
                if own is None:
                    _less(self._tenant_running, principal.tenant)

        return leave

    def _enter_tenant(self, principal: Principal) -> None:
        limits, now, tenant = self.limits, self._monotonic(), principal.tenant
        if self._tenant_running[tenant] >= limits.tenant_concurrent:
            raise LimitExceededError(
                "tenant_concurrency",
                f"{limits.tenant_concurrent} requests of the tenant are under way, which is the limit",
                RETRY_PLACE,
            )
        if wait := self._rates.take(principal.id, now):
            raise LimitExceededError(
                "rate", f"more than {limits.requests_per_minute} requests a minute of {principal.name}", wait
            )
        if wait := self._tenant_rates.take(tenant, now):
            self._rates.give_back(principal.id)
            raise LimitExceededError(
                "tenant_rate", f"more than {limits.tenant_requests_per_minute} requests a minute", wait
            )

    def subscribe(self, principal: Principal) -> None:
        """Count one request to subscribe or unsubscribe.

        Raises:
            LimitExceededError: it comes too early.
        """
        if wait := self._subscribing.take(principal.id, self._monotonic()):
            raise LimitExceededError(
                "subscriptions",
                f"more than {self.limits.subscriptions_per_minute} requests a minute to subscribe or unsubscribe",
                wait,
            )


def _less(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
