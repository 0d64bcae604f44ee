"""What the page says of the fleet at one moment, gathered from it. Nothing that a scrape does not show.

Knows the fleet; nothing of how anything looks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pallas_registry.catalogue.entries import endpoint
from pallas_supervisor.lifecycle.states import Desired, State
from pallas_supervisor.page.data.history import Count, together

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.reports import ReadyReport, Status
    from pallas_registry.deployment.model import Agent as DeployedAgent
    from pallas_supervisor.agents.manager import AgentManager
    from pallas_supervisor.lifecycle.states import Agent
    from pallas_supervisor.page.data.history import History, Stretch, Trend
    from pallas_supervisor.page.data.samples import Samples, Totals

CLOCK_SLACK = 2.0
"""Seconds by which wall clock and engine's clock may drift apart before times on the page follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """One agent."""

    name: str
    title: str
    port: int
    url: str
    """Where clients reach it."""
    serves: str
    """Module, and what the agent is called in it where that is another name."""
    model: str
    """`provider.model-name`; empty as long as nobody knows, or if it has none."""
    needs: tuple[str, ...]
    state: State
    wanted: bool
    since: datetime
    """When it came into its state."""
    health: Status
    why: str
    """Why it is not well; empty when it is."""
    restarts: int
    memory: int | None
    """Resident memory in bytes; None without a process."""
    totals: Totals
    trend: Trend
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the newest probe says of a server or provider; of several agents' the one that is not well."""

    up: bool
    since: datetime
    latency: float | None
    """Seconds."""
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """All of them, and what they share."""

    name: str
    health: Status
    agents: tuple[AgentFacts, ...]
    trend: Trend
    samples: Samples
    looks: Mapping[tuple[str, str], Look] = field(default_factory=dict)
    """By kind (server, provider) and name."""

    @property
    def wanted(self) -> int:
        """How many agents should run."""
        return sum(agent.wanted for agent in self.agents)

    @property
    def ready(self) -> int:
        """How many of those are ready."""
        return sum(agent.wanted and agent.state is State.READY for agent in self.agents)

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


def gather(
    fleet: AgentManager, samples: Samples, memory: Mapping[str, int], history: History, clock: WallClock
) -> FleetFacts:
    """The facts at this moment.

    Args:
        samples: the workers' newest series.
        memory: resident memory in bytes of each live worker.
    """
    now = fleet.engine.now()
    document = fleet.health_document()
    agents = []
    for name, agent in fleet.agents.items():
        deployed = fleet.deployment.agents[name]
        totals = samples.agents[name]
        health = document["agents"][name]
        said = fleet.reports.model(agent)
        agents.append(
            AgentFacts(
                name=name,
                title=deployed.title,
                port=deployed.port,
                url=endpoint(fleet.deployment.host, deployed.port),
                serves=_serves(deployed, said),
                model=(said.model if said is not None else None) or "",
                needs=deployed.depends_on,
                state=agent.state,
                wanted=agent.desired is Desired.UP,
                since=clock.at(agent.since, now),
                health=health["status"],
                why=_why(agent, health),
                restarts=agent.restarts,
                memory=memory.get(name),
                totals=totals,
                trend=history.trend(name, count_of(totals), now),
                stretches=tuple(history.stretches(name)),
            )
        )
    return FleetFacts(
        name=fleet.deployment.name,
        health=document["status"],
        agents=tuple(agents),
        trend=together(agent.trend for agent in agents),
        samples=samples,
        looks=looks_of(document),
    )


def looks_of(document: Mapping[str, Any]) -> dict[tuple[str, str], Look]:
    """The newest probes in the document of `GET /health`."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in document["agents"].values():
        for server in entry["downstreams"]:
            found.setdefault(("server", server["name"]), []).append(server)
        if (provider := entry["provider"]) is not None:
            found.setdefault(("provider", provider["name"]), []).append(provider)
    looks = {}
    for key, entries in found.items():
        known = [entry for entry in entries if entry["since"] and entry["checked"]]
        down = [entry for entry in known if not entry["up"]]
        if not (counting := down or known):
            continue
        newest = max(counting, key=lambda entry: entry["checked"])
        moment = min(entry["since"] for entry in down) if down else max(entry["since"] for entry in known)
        looks[key] = Look(
            up=not down,
            since=datetime.fromisoformat(moment),
            latency=newest["latency"],
            error=newest["error"],
        )
    return looks


def _serves(deployed: DeployedAgent, said: ReadyReport | None) -> str:
    served = said.served if said is not None else None
    return deployed.module if served in (None, deployed.name) else f"{deployed.module}: {served}"


def _why(agent: Agent, health: Mapping[str, Any]) -> str:
    """The message of `GET /health`, but for the one that only repeats the state."""
    message: str = health.get("message", "")
    return "" if message == f"the agent is {agent.state}" else message


def count_of(totals: Totals) -> Count:
    """What the history remembers of an agent's counters; tokens are those in and out."""
    return Count(totals.calls, totals.errors, totals.tokens_in + totals.tokens_out)
