"""The agent's health: background probes at an interval, and the newest of their outcomes.

Knows when to probe and what the outcomes mean together; must not know how a probe is made, nor who is told.
It never asks the LLM anything.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Never

from pallas_registry.logs import get_logger
from pallas_registry.protocol import HealthReport
from pallas_worker import metrics
from pallas_worker.probes import Prober

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pallas_registry.protocol import DownstreamHealth, ProviderHealth, Status
    from pallas_worker.downstreams import Downstream

    type ProviderCheck = Callable[[], Awaitable[ProviderHealth | None]]
    """Gives the active LLM provider's state, or None if there is none to check; never raises."""
    type Probe = Callable[[Downstream], Awaitable[DownstreamHealth]]
    """Probes one downstream server; never raises for what the server does."""

INTERVAL = 15.0
"""Seconds from the start of one round of probes to the start of the next."""
FIRST_ROUND_TIMEOUT = 3.0
"""Seconds that `get_health` waits for the first round."""

_log = get_logger("pallas.worker.health")


def assess(
    downstreams: Sequence[DownstreamHealth], provider: ProviderHealth | None, failure: str | None = None
) -> tuple[Status, str | None]:
    """What outcomes mean together: the status, and the message that goes with all but `ok`.

    A server or provider that is down degrades the agent, which can still answer with what it has; `failure`,
    the reason why the agent cannot answer at all, is an error (interface specification, "Result mapping").
    """
    parts = [failure] if failure else []
    if unreachable := [server.name for server in downstreams if not server.up]:
        parts.append(f"Unreachable: {', '.join(unreachable)}")
    if provider is not None and not provider.up:
        parts.append(f"LLM: {provider.name}: {provider.error or 'failed its check'}")
    if not parts:
        return "ok", None
    return ("error" if failure else "degraded"), "; ".join(parts)


def health_document(report: HealthReport) -> dict[str, str]:
    """The JSON object that `get_health` answers: `status`, `timestamp` and, unless ok, `message`."""
    document = {"status": report.status, "timestamp": report.timestamp}
    if report.message is not None:
        document["message"] = report.message
    return document


class Health:
    """The health of one agent. `run` keeps it up to date."""

    def __init__(
        self,
        agent: str,
        downstreams: Sequence[Downstream],
        provider_check: ProviderCheck,
        publish: Callable[[HealthReport], None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        probe: Probe | None = None,
        interval: float = INTERVAL,
    ) -> None:
        """Prepare; nothing is probed before `run`.

        Args:
            agent: the agent's name, a label of its gauges.
            downstreams: the servers to probe.
            provider_check: see `ProviderCheck`.
            publish: told of every round's report.
            now: the wall clock, for the reports' timestamps.
            probe: in place of a `Prober`'s.
            interval: seconds between the starts of two rounds.
        """
        self._agent = agent
        self._downstreams = tuple(downstreams)
        self._provider_check = provider_check
        self._publish = publish
        self._now = now
        self._probe = probe
        self._interval = interval
        self._failure: str | None = None
        self._outcome: tuple[Sequence[DownstreamHealth], ProviderHealth | None] | None = None
        self._newest: HealthReport | None = None
        self._first_round = asyncio.Event()

    async def run(self) -> Never:
        """Probe, publish, and again every `interval` seconds, until cancelled."""
        clock = asyncio.get_running_loop().time
        async with Prober() as prober:
            while True:
                begun = clock()
                try:
                    await self._round(self._probe or prober.probe)
                except Exception:  # noqa: BLE001 - without a next round, health would stand still
                    _log.exception("a round of health probes failed")
                await asyncio.sleep(max(0.0, begun + self._interval - clock()))

    async def newest(self) -> HealthReport:
        """The newest report; waits up to 3 s for the first one, and without it says so, as `degraded`."""
        if self._newest is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_ROUND_TIMEOUT):
                    await self._first_round.wait()
        if self._newest is not None:
            return self._newest
        message = "The first health probes are still under way"
        return HealthReport(status="degraded", timestamp=self._timestamp(), message=message)

    def fail(self, reason: str | None) -> None:
        """From now on say that the agent cannot answer at all, and why; None takes it back."""
        if reason != self._failure:
            self._failure = reason
            if self._outcome is not None:
                self._announce(*self._outcome)

    async def _round(self, probe: Probe) -> None:
        probes = asyncio.gather(*map(probe, self._downstreams))
        downstreams, provider = await asyncio.gather(probes, self._provider_check())
        for server in downstreams:
            metrics.set_downstream_up(self._agent, server.name, server.up)
        if provider is not None:
            metrics.set_llm_provider_up(provider.name, provider.up)
        metrics.set_health_checked(self._agent)
        self._log_changes(downstreams, provider)
        self._outcome = downstreams, provider
        self._announce(downstreams, provider)

    def _announce(self, downstreams: Sequence[DownstreamHealth], provider: ProviderHealth | None) -> None:
        status, message = assess(downstreams, provider, self._failure)
        self._newest = HealthReport(
            status=status,
            timestamp=self._timestamp(),
            message=message,
            downstreams=tuple(downstreams),
            provider=provider,
        )
        self._first_round.set()
        self._publish(self._newest)

    def _log_changes(self, downstreams: Sequence[DownstreamHealth], provider: ProviderHealth | None) -> None:
        """One record for each server or provider that has gone down or come back; all begin as up."""
        before, provider_before = self._outcome or ((), None)
        was_up = {server.name: server.up for server in before}
        for server in downstreams:
            if server.up != was_up.get(server.name, True):
                _log_change(f"downstream server {server.name}", server)
        if provider is not None and provider.up != (provider_before is None or provider_before.up):
            _log_change(f"LLM provider {provider.name}", provider)

    def _timestamp(self) -> str:
        return self._now().astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _log_change(what: str, health: DownstreamHealth | ProviderHealth) -> None:
    if health.up:
        _log.info("%s is up again", what)
    else:
        _log.warning("%s is down: %s", what, health.error)
