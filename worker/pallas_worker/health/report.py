"""The agent's health: background probes at an interval, and the newest of their outcomes.

Knows when to probe, and reports what is found; must not know how a probe is made, nor who reads it. It never asks the
LLM anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Never

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.agent.settings import SLOW_AFTER
from pallas_common.protocol.probe_interval import PROBE_INTERVAL
from pallas_common.protocol.reports import (
    DownstreamHealth,
    HealthReport,
    ProviderHealth,
)
from pallas_common.times import rfc3339
from pallas_worker.health.assessment import assess
from pallas_worker.health.changes import report_change
from pallas_worker.health.mcp_probe import Prober
from pallas_worker.health.needs import subjects_for
from pallas_worker.health.provider_probe import is_unlisted
from pallas_worker.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pallas_common.protocol.reports import Status
    from pallas_worker.downstreams.facts import Downstream
    from pallas_worker.health.needs import Probe, Provider
    from pallas_worker.health.subjects import Subject
    from pallas_worker.interface.providers.failures import ModelFailure

FIRST_ROUND_TIMEOUT = 3.0
"""Seconds that `get_health` waits for the first round."""
PASSING_FAILURE = 300.0
"""Seconds for which an LLM that failed a call counts as down, where the next call may well go through."""
LASTING_FAILURE = 3600.0
"""The same where the next call has to fail, too: it may be mended elsewhere, and no call may come to show it."""

_log = get_logger("pallas.worker.health")


class Health:
    """The health of one agent. `run` keeps it up to date."""

    def __init__(
        self,
        agent: str,
        downstreams: Sequence[Downstream],
        providers: Sequence[Provider],
        publish: Callable[[HealthReport], None],
        *,
        failure: str | None = None,
        unattached: Mapping[str, str] | None = None,
        attach_again: Callable[[], None] = lambda: None,
        missing: Callable[[str], str | None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        probe: Probe | None = None,
        interval: float = PROBE_INTERVAL,
        slow_after: float = SLOW_AFTER,
        on_demand: Collection[str] = (),
    ) -> None:
        """Prepare; nothing is probed before `run`.

        Args:
            agent: the agent's name, a label of its gauges.
            downstreams: the servers to probe.
            providers: the LLM providers to check.
            publish: takes every round's report.
            failure: why the agent cannot answer at all, from the start on; see `fail`.
            unattached: the servers that calls could not use so far, and why; see `attachment`.
            attach_again: has the servers tried again that calls could not use.
            missing: what is missing in a server's lists, as calls have read them.
            now: the wall clock, for the reports' timestamps.
            probe: in place of a `Prober`'s.
            interval: seconds between the starts of two probes.
            slow_after: seconds beyond which a probe is slow.
            on_demand: the servers that are agents which start on demand: only calls may wake them.
        """
        self._agent = agent
        self._publish = publish
        self._attach_again = attach_again
        self._missing = missing
        self._now = now
        self._prober = Prober()
        self._interval = interval
        self._subjects = subjects_for(
            downstreams,
            providers,
            probe or self._prober.probe,
            interval=interval,
            slow_after=slow_after,
            on_demand=on_demand,
        )
        self._on_demand = on_demand
        self._told = -math.inf
        """When the newest report was made, on the monotonic clock."""
        self._failure = failure
        self._newest: HealthReport | None = None
        self._first_round = asyncio.Event()
        self._woken = asyncio.Event()
        for server, why in (unattached or {}).items():
            self.attachment(server, why)

    async def run(self) -> Never:
        """Probe what is due, publish, and again, until cancelled."""
        async with self._prober:
            while True:
                self._woken.clear()
                now = time.monotonic()
                lapsed = [subject for subject in self._subjects if subject.lapse(now)]
                if due := [subject for subject in self._subjects if subject.due <= now]:
                    await self._look_at(due)
                elif (
                    lapsed or self._told + self._interval <= now
                ):  # an agent that needs nothing has a report, too
                    self._tell()
                moments = [min(subject.due, subject.obstacle_until) for subject in self._subjects]
                await self._rest(min([*moments, self._told + self._interval]))

    @property
    def status(self) -> Status:
        """What the newest report says; `ok` before the first one."""
        return "ok" if self._newest is None else self._newest.status

    def is_model_down(self) -> bool:
        """Whether the provider of the agent's own model is known to fail."""
        return any(
            subject.condition == "down"
            for subject in self._subjects
            if subject.counts and subject.kind is ProviderHealth
        )

    async def newest(self) -> HealthReport:
        """The newest report; waits up to 3 s for the first one, and without it says so, as `degraded`."""
        if self._newest is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_ROUND_TIMEOUT):
                    await self._first_round.wait()
        if self._newest is not None:
            return self._newest
        message = "The first health probes are still under way"
        return HealthReport(status="degraded", timestamp=rfc3339(self._now()), message=message)

    def fail(self, reason: str | None) -> None:
        """From now on say that the agent cannot answer at all, and why; None takes it back."""
        if reason != self._failure:
            self._failure = reason
            if self._newest is not None:
                self._announce()

    def attachment(self, server: str, why: str | None) -> None:
        """A call has tried to use the server: why it could not, or None.

        A server of which that is the newest is down, whatever probes find: they do not start a command, nor do they
        ask for tools. See `Listener` in `reachability`. One that starts on demand is not tried again until a call needs
        it, so that it counts as down for `PASSING_FAILURE` at most.
        """
        until = time.monotonic() + PASSING_FAILURE if server in self._on_demand else math.inf
        for subject in self._subjects:
            if subject.name == server and subject.kind is DownstreamHealth:
                news = subject.called(why, until)
                if news and self._newest is not None:
                    self._tell()
                    self._woken.set()

    def model_called(self, failure: ModelFailure | None) -> None:
        """A call's LLM has answered (None), or has failed in a way that is not the request's own fault.

        Then the active provider, if that LLM is its own, is down, though its list of models may be fine: until the next
        call that is answered, or its check succeeds after it failed, and for `PASSING_FAILURE` or `LASTING_FAILURE` at
        most. A call that was answered is the check, and is believed where the provider does not list its model.
        """
        if failure is None:
            self.fail(None)
        for subject in self._subjects:
            if subject.kind is not ProviderHealth or not subject.counts:
                continue
            if failure is not None and failure.provider != subject.name:
                continue
            checked = rfc3339(self._now(), "milliseconds")
            if failure is None:
                news = subject.answered(checked, time.monotonic())
            else:
                if subject.look is None:
                    subject.outcome = ProviderHealth(name=subject.name, up=True, checked=checked)
                lasting = failure.row.health == "lasting"
                seconds = LASTING_FAILURE if lasting else PASSING_FAILURE
                news = subject.called(f"calls fail: {failure.reason}", time.monotonic() + seconds)
            if news and self._newest is not None:
                self._tell()
                self._woken.set()

    # --- what is looked at, and when ----------------------------------------------------------------------

    async def _rest(self, until: float) -> None:
        """Wait until then, or until a call has news; others have their turn on the loop in any case."""
        await asyncio.sleep(0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                await self._woken.wait()

    async def _look_at(self, due: Sequence[Subject]) -> None:
        """Probe in parallel."""
        for error in await asyncio.gather(*map(self._look, due), return_exceptions=True):
            if isinstance(error, BaseException):  # without a next round, health would stand still
                _log.error("a round of health probes failed", exc_info=error)
        self._tell()
        self._remove_obstacles()

    async def _look(self, subject: Subject) -> None:
        begun = time.monotonic()
        subject.postpone(begun)
        if subject.look is not None:
            outcome = await subject.look()
            if isinstance(outcome, ProviderHealth) and subject.proven and is_unlisted(outcome):
                outcome = replace(outcome, up=True, error=None)
            subject.found(replace(outcome, checked=rfc3339(self._now(), "milliseconds")), begun)

    def _remove_obstacles(self) -> None:
        """Have servers attached again: calls may come seldom, and not at all to an agent that is known as degraded."""
        servers = (
            subject
            for subject in self._subjects
            if subject.kind is DownstreamHealth and subject.name not in self._on_demand
        )
        if any(server.is_obstructed for server in servers):
            self._attach_again()

    # --- what follows -------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Bring gauges, log and report up to date with the newest outcomes."""
        self._told = time.monotonic()
        for subject in self._subjects:
            report_change(self._agent, subject)
        metrics.set_health_checked(self._agent)
        if not any(subject.is_awaited for subject in self._subjects if subject.counts):
            self._announce()

    def _announce(self) -> None:
        counting = [subject for subject in self._subjects if subject.counts]
        found = [(subject, state) for subject in counting if (state := self._state(subject)) is not None]
        outcomes = [state for _, state in found]
        slow = [state for subject, state in found if subject.condition == "slow"]
        downstreams = tuple(outcome for outcome in outcomes if isinstance(outcome, DownstreamHealth))
        provider = next((outcome for outcome in outcomes if isinstance(outcome, ProviderHealth)), None)
        status, message = assess(downstreams, provider, self._failure, slow)
        self._newest = HealthReport(
            status=status,
            timestamp=rfc3339(self._now()),
            message=message,
            downstreams=downstreams,
            provider=provider,
        )
        self._first_round.set()
        self._publish(self._newest)

    def _state(self, subject: Subject) -> DownstreamHealth | ProviderHealth | None:
        """How it is, with what is missing in the lists of a server that is up."""
        state = subject.state
        if isinstance(state, DownstreamHealth) and state.up:
            return replace(state, incomplete=self._missing(state.name))
        return state
