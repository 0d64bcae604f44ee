"""What the page shows of the deployment at one moment: typed values. Nothing that a scrape does not show.

Knows agents, their reports and their series; nothing of how anything looks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pallas_registry.catalogue.entries import published_url
from pallas_supervisor.health.document import agent_health, overall
from pallas_supervisor.http.page.data.history import Count, together
from pallas_supervisor.http.page.data.samples import Totals
from pallas_supervisor.lifecycle.states import Desired, State
from pallas_supervisor.telemetry.process_metrics import ProcessUse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_common.protocol.reports import (
        DownstreamHealth,
        HealthReport,
        ProviderHealth,
        ReadyReport,
        Status,
    )
    from pallas_registry.deployment.model import Agent as DeployedAgent
    from pallas_supervisor.agents.status import StatusView
    from pallas_supervisor.health.history import HealthHistory, Past
    from pallas_supervisor.http.page.data.history import History, Stretch, Trend
    from pallas_supervisor.http.page.data.samples import Samples
    from pallas_supervisor.lifecycle.states import Agent

    type Probe = tuple[str, DownstreamHealth | ProviderHealth, Past | None]

CLOCK_SLACK = 2.0
"""Seconds by which wall clock and engine's clock may drift apart before times on the page follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """One agent."""

    name: str
    title: str
    url: str | None
    """Where clients reach it; None without a port."""
    """Where clients reach it."""
    serves: str
    """Module, and what the agent is called in it where that is another name."""
    model: str
    """`provider.model-name`; empty as long as it is not known, or if it has none."""
    project: str
    """Of an agent that is declared as a resource; empty without one."""
    needs: tuple[str, ...]
    state: State
    wanted: bool
    available: bool
    """Whether it serves, or will as soon as somebody connects."""
    since: datetime
    """When it came into its state."""
    health: Status
    why: str
    """Why it is not well; empty when it is."""
    restarts: int
    memory: int | None
    """Resident memory in bytes; None without a process."""
    cpu: float = 0.0
    """Seconds of CPU time of all its workers so far."""
    totals: Totals
    trend: Trend
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the newest probe says of a server or provider; of several agents' probes one that failed, if any did."""

    up: bool
    since: datetime
    checked: str
    """When the probe ended, as RFC 3339."""
    latency: float | None
    """Seconds."""
    error: str | None


class GatewayFacts(NamedTuple):
    """What is shown of the gateway."""

    state: str
    health: str
    url: str
    """By which clients reach it."""
    why: str
    """One line on why it is in its state; empty when there is nothing to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFacts:
    """All of them, and what they share."""

    name: str
    health: Status
    agents: tuple[AgentFacts, ...]
    trend: Trend
    samples: Samples
    looks: Mapping[tuple[str, str], Look] = field(default_factory=dict)
    """By kind (server, provider) and name."""
    gateway: GatewayFacts | None = None
    """None where there is none."""

    @property
    def wanted(self) -> int:
        """How many agents should run."""
        return sum(agent.wanted for agent in self.agents)

    @property
    def ready(self) -> int:
        """How many of those are ready, or idle."""
        return sum(agent.wanted and agent.available for agent in self.agents)

    @property
    def idle(self) -> tuple[AgentFacts, ...]:
        """The agents that run as soon as somebody connects."""
        return tuple(agent for agent in self.agents if agent.state is State.IDLE)

    @property
    def failed(self) -> int:
        """How many of those will not start again by themselves."""
        return sum(agent.wanted and agent.state is State.FAILED for agent in self.agents)

    @property
    def unwell(self) -> int:
        """How many of those are ready and not well."""
        return sum(agent.state is State.READY for agent in self.troubled)

    @property
    def troubled(self) -> tuple[AgentFacts, ...]:
        """The agents that should run and are not well."""
        return tuple(agent for agent in self.agents if agent.wanted and agent.health != "ok")


_NOTHING = ProcessUse(memory=0, cpu=0.0, descriptors=0, started=0.0)


class WallClock:
    """Tells wall time of the engine's times, the same for the same time each time it is asked."""

    def __init__(self) -> None:
        self._offset = 0.0

    def at(self, moment: float, now: float) -> datetime:
        """The time of day at `moment`, to the second; both are on the engine's clock."""
        offset = time.time() - now
        if abs(offset - self._offset) > CLOCK_SLACK:
            self._offset = offset
        return datetime.fromtimestamp(int(self._offset + moment), UTC)


class Gatherer:
    """Gathers the facts.

    Of an agent that has had no process for as long as the charts go back, nothing changes: what was gathered is kept,
    because there may be a thousand of them.
    """

    def __init__(self, status: StatusView, history: History) -> None:
        self._status = status
        self._history = history
        self._clock = WallClock()
        self._kept: dict[str, tuple[Agent, DeployedAgent, AgentFacts]] = {}

    def gather(self, samples: Samples, use: Mapping[str, ProcessUse], now: float) -> DeploymentFacts:
        """The facts at this moment.

        Args:
            samples: the workers' newest series.
            use: of processes, by agent.
            now: seconds on the engine's clock.
        """
        status = self._status
        reports = {
            name: report
            for name, agent in status.agents.items()
            if agent.state is State.READY and (report := status.reports.health(agent)) is not None
        }
        agents = []
        kept = {}
        for name, agent in status.agents.items():
            deployed = status.deployment.agents[name]
            known = self._kept.get(name)
            if known is not None and known[0] is agent and known[1] is deployed:
                kept[name] = known
            else:
                found = self._agent(agent, deployed, reports.get(name), samples, use.get(name, _NOTHING), now)
                known = agent, deployed, found
                if agent.state is State.IDLE and self._history.is_quiet(name):
                    kept[name] = known
            agents.append(known[2])
        self._kept = kept
        health = overall([agent.health for agent in agents if agent.wanted])
        return DeploymentFacts(
            name=status.deployment.name,
            health=status.with_gateway(health),
            gateway=self._gateway(),
            agents=tuple(agents),
            trend=together(agent.trend for agent in agents),
            samples=samples,
            looks=looks_of(reports, status.health_history),
        )

    def _gateway(self) -> GatewayFacts | None:
        entry = None if self._status.gateway is None else self._status.gateway.entry()
        if entry is None:
            return None
        return GatewayFacts(entry["state"], entry["health"], entry["public_url"], entry["message"])

    def _agent(
        self,
        agent: Agent,
        deployed: DeployedAgent,
        report: HealthReport | None,
        samples: Samples,
        used: ProcessUse,
        now: float,
    ) -> AgentFacts:
        status, history, name = self._status, self._history, agent.name
        totals = samples.agents.get(name)
        if totals is None:  # it has not counted yet, or what it has counted is put away while it is idle
            seen = history.seen(name)
            totals = Totals(calls=seen.calls, errors=seen.errors)
            count = seen
        else:
            count = count_of(totals)
        health = agent_health(agent, report)
        message = report.message if report is not None else None
        said = status.reports.model(agent)
        declared = status.declared(name)
        return AgentFacts(
            name=name,
            title=deployed.title,
            url=published_url(status.deployment, deployed),
            serves=_serves(deployed, said),
            model=(said.model if said is not None else None) or declared.model,
            project=declared.project,
            needs=deployed.depends_on,
            state=agent.state,
            wanted=agent.desired is Desired.UP,
            available=agent.is_available,
            since=self._clock.at(agent.since, now),
            health=health,
            why="" if health == "ok" else message or status.why(name),
            restarts=agent.restarts,
            memory=used.memory or None,
            cpu=used.cpu,
            totals=totals,
            trend=history.trend(name, count, now),
            stretches=tuple(history.stretches(name)),
        )


def looks_of(reports: Mapping[str, HealthReport], history: HealthHistory) -> dict[tuple[str, str], Look]:
    """The newest probes in the agents' health reports, by kind and name of what they are of."""
    found: dict[tuple[str, str], list[Look]] = {}
    for agent, report in reports.items():
        for kind, probe, past in _probes(agent, report, history):
            if past is not None and probe.checked:
                look = Look(
                    up=probe.up,
                    since=datetime.fromisoformat(past.since),
                    checked=probe.checked,
                    latency=probe.latency,
                    error=probe.error,
                )
                found.setdefault((kind, probe.name), []).append(look)
    looks = {}
    for key, known in found.items():
        down = [look for look in known if not look.up]
        since = min(look.since for look in down) if down else max(look.since for look in known)
        looks[key] = replace(max(down or known, key=lambda look: look.checked), since=since)
    return looks


def _probes(agent: str, report: HealthReport, history: HealthHistory) -> Iterator[Probe]:
    for server in report.downstreams:
        yield "server", server, history.downstream(agent, server.name)
    if (provider := report.provider) is not None:
        yield "provider", provider, history.provider(agent, provider.name)


def _serves(deployed: DeployedAgent, said: ReadyReport | None) -> str:
    if deployed.definition is not None:
        return "what its resource declares"
    served = said.served if said is not None else None
    return str(deployed.source) if served in (None, deployed.name) else f"{deployed.source}: {served}"


def count_of(totals: Totals) -> Count:
    """What the history remembers of an agent's counters; tokens are those in and out."""
    return Count(totals.calls, totals.errors, totals.tokens_in + totals.tokens_out)
