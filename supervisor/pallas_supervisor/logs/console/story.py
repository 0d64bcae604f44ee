"""The story of a deployment as a person follows it: agents as they are and records go in, what to say comes out.

Pure: the clock is handed in. Knows no terminal, and nothing of where its facts are from: the supervisor feeds it with
what happens, `pallas up -d` with what the control API answers. States may be missing between two views of an agent.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from pallas_common.problems import counted
from pallas_common.protocol.gateway import GATEWAY
from pallas_supervisor.logs.console.lines import AgentView, DeploymentView, Say
from pallas_supervisor.logs.console.repeats import Repeats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

HEALTH_GRACE = 1.5
"""Seconds that the summary waits for what agents that have just become ready say of their health."""
PATIENCE: Mapping[str, float] = {"waiting": 20.0, "starting": 10.0, "stopping": 3.0, "killing": 3.0}
"""Seconds in a state after which it is worth a line; the next one comes after twice the time."""
SELF = "pallas"
"""What the supervisor's own lines are about."""

_OWN = "pallas.supervisor"
_TOLD = frozenset({"pallas.supervisor.reloading", "pallas.supervisor.control"})
"""Loggers whose INFO is an event for people: what an operator asked for, and what a reload has done."""
_TOLD_BY_VIEWS = ("previous", "replacement", "health")
"""Fields of records about an agent's state, second worker and health, of which the views say more."""
_SETTLED = frozenset({"ready", "idle", "failed", "stopped", "backoff"})
_AVAILABLE = frozenset({"ready", "idle"})
FEW = 10
"""Agents that start on demand of which each coming and going has a line; of more, only what goes wrong."""
_BLOCKING = frozenset({"failed", "stopped", "backoff"})


@dataclass(slots=True)
class _Known:
    """An agent as it was seen last."""

    view: AgentView
    begun: float
    """When its start was first seen, or when it was lost."""
    since: float = 0.0
    """When its state was first seen."""
    notice: float | None = None
    """When it is worth a line that it is still in its state."""
    was_ready: bool = False
    told: str = ""
    """What has been said of its health."""
    printed: tuple[str, ...] = ()
    """What it had printed last when it failed."""


class Story:
    """What to say, and when.

    Args:
        output: the last lines that an agent has printed.
        way_out: how to stop, a sentence.
    """

    def __init__(
        self,
        output: Callable[[str], Iterable[str]] = lambda _name: (),
        way_out: str = "Ctrl-C stops all.",
    ) -> None:
        self._output = output
        self._way_out = way_out
        self._agents: dict[str, _Known] = {}
        self._on_demand = 0
        """How many agents start on demand."""
        self._repeats = Repeats()
        self._began = 0.0
        self._grace: float | None = None
        self._deployment: DeploymentView | None = None
        self.summarised = False
        """Whether the start is over and has been summed up."""
        self.stopping = False
        self._seen_starting = False
        self._gateway_failed = False

    def open(self, deployment: DeploymentView, now: float) -> list[Say]:
        """The first lines."""
        self._deployment, self._began = deployment, now
        file = deployment.file
        head = f"Pallas {deployment.version}: {deployment.name}, {counted(len(deployment.agents), 'agent')}"
        page = [] if deployment.page is None else [Say(f"Status page: {deployment.page}")]
        gateway = (
            []
            if deployment.gateway is None
            else [Say(f"Gateway: {deployment.gateway}/mcp; in a browser {deployment.gateway}/")]
        )
        if deployment.gateway is not None and deployment.token is not None:
            gateway.append(Say(f"Its token for pallasctl and you: {deployment.token}"))
        said = [Say(f"{head} of {file}"), *page, *gateway, Say("")]
        if not deployment.agents:
            self.summarised = True
            ways = "write one below `agents:` and `pallasctl reload`, or declare one: `pallasctl create agent NAME`"
            said.append(Say(f"No agents yet: {ways}. {self._way_out}"))
        return said

    def look(self, views: Iterable[AgentView], now: float) -> list[Say]:
        """All agents as they are now."""
        found = {view.name: view for view in views}
        self._on_demand = sum(view.on_demand for view in found.values())
        said: list[Say] = []
        for name in self._agents.keys() - found.keys():
            del self._agents[name]
            said.append(Say("is not deployed any more", "removed", "plain", name))
        for name in _needed_first(found):
            view = found[name]
            known = self._agents.get(name)
            if known is None:
                known = self._agents[name] = _Known(AgentView(name=name, state="stopped", url=view.url), now)
            if view != known.view:
                said += self._moved(known, known.view, view, now)
                known.view = view
        return said + self.tick(now)

    def record(self, agent: str, record: Mapping[str, object], level: int, now: float) -> list[Say]:
        """One log record of an agent, or of the supervisor."""
        logger, text = str(record.get("logger", "")), str(record.get("message", ""))
        if logger.startswith(_OWN):
            if agent == GATEWAY and agent not in self._agents and "state" in record:
                return self._gateway_moved(str(record["state"]), text)
            if any(key in record for key in _TOLD_BY_VIEWS):
                return []
            if level < logging.WARNING:
                return [Say(text, "", "plain", SELF)] if logger in _TOLD and not self.stopping else []
        elif level < logging.WARNING or self._gives_up(agent, record):
            return []
        if agent:
            text = text.removeprefix(f"{agent}: ")
        last = str(record.get("exception") or "").rstrip().rpartition("\n")[2]
        if last and last not in text:
            text = f"{text}: {last}"
        bad = level >= logging.ERROR
        word, tone = ("error", "bad") if bad else ("warning", "warn")
        return self._repeats.take(
            Say(text, word, "bad" if tone == "bad" else "warn", agent or SELF, problem=True), now
        )

    def _gateway_moved(self, state: str, text: str) -> list[Say]:
        """The gateway, of which there is no view: that it fails, and that it serves again."""
        why = text.partition(" (")[2].removesuffix(")") or text
        match state:
            case "backoff":
                self._gateway_failed = True
                return [Say(why, "crashed", "warn", GATEWAY, problem=True)]
            case "failed":
                self._gateway_failed = True
                ways = ("once it is mended: pallasctl gateway start", "more: pallasctl logs gateway")
                return [Say(why, "failed", "bad", GATEWAY, "", ways, problem=True)]
            case "ready" if self._gateway_failed:
                self._gateway_failed = False
                return [Say("serves again", "ready", "good", GATEWAY)]
            case _:
                return []

    def tick(self, now: float) -> list[Say]:
        """What is to be said because time has passed, or because everything has come to rest."""
        said = self._repeats.tick(now)
        for known in self._agents.values():
            if known.notice is not None and now >= known.notice:
                so_far = now - known.since
                if known.view.state != "waiting" or not self._blocked(known.view.name):
                    said.append(_still(known.view, so_far))
                known.notice = now + so_far
        if not self.summarised and not self.stopping and self._agents and self._at_rest():
            unknown = any(
                known.view.state == "ready" and known.view.health == "unknown"
                for known in self._agents.values()
            )
            if self._grace is None:
                self._grace = now + HEALTH_GRACE
            if not unknown or now >= self._grace:
                said += self._sum_up(now)
        return said

    @property
    def due(self) -> float | None:
        """When `tick` may have something to say; None if not before something happens."""
        times = [known.notice for known in self._agents.values()]
        times += [self._repeats.due, None if self.summarised else self._grace]
        return min((time for time in times if time is not None), default=None)

    def stop(self, now: float) -> list[Say]:
        """The supervisor has been told to stop."""
        self.stopping = True
        for known in self._agents.values():
            known.begun = now
        left = sum(known.view.state not in ("stopped", "failed") for known in self._agents.values())
        agents = f" {counted(left, 'agent')}" if left else ""
        return [Say(f"Stopping{agents} (Ctrl-C again kills what is left)"), *self._repeats.finish(now)]

    def stopped(self, now: float) -> list[Say]:
        """The supervisor has stopped."""
        return [*self._repeats.finish(now), Say("Stopped")] if self.stopping else self._repeats.finish(now)

    @property
    def failing(self) -> list[AgentView]:
        """The agents that should run and are not ready."""
        views = [known.view for known in self._agents.values()]
        return [view for view in views if view.desired == "up" and view.state not in _AVAILABLE]

    def _gives_up(self, agent: str, record: Mapping[str, object]) -> bool:
        """Whether this is a worker's traceback of why it cannot start: its failure, which follows, says the same."""
        known = self._agents.get(agent)
        starts = known is None or known.view.state != "ready"
        return starts and record.get("logger") == "pallas.worker" and "exception" in record

    def _blocked(self, name: str, depth: int = 0) -> bool:
        """Whether the agent is down, or waits for one that is, and that is not on its way up by itself."""
        known = self._agents.get(name)
        if known is None or depth > len(self._agents):
            return False
        if known.view.state != "waiting":
            return known.view.state in _BLOCKING
        return any(self._blocked(need, depth + 1) for need in known.view.needs)

    def _at_rest(self) -> bool:
        """Whether no agent is on its way up by itself: one that fails again and again does not hold up the others."""
        views = {name: known.view for name, known in self._agents.items()}
        # An agent that has not been started yet is stopped, too, and wanted down.
        if all(view.generation == 0 and view.state == "stopped" for view in views.values()):
            return False
        return all(view.state in _SETTLED or self._blocked(name) for name, view in views.items())

    def _sum_up(self, now: float) -> list[Say]:
        self.summarised = True
        views = [known.view for known in self._agents.values()]
        wanted = [view for view in views if view.desired == "up" or view.state != "stopped"]
        ready = [view for view in wanted if view.state in _AVAILABLE]
        idle = sum(view.state == "idle" for view in wanted)
        said = [
            Say(view.message or "waits", "waiting", "warn", view.name, problem=True)
            for view in wanted
            if view.state == "waiting"
        ]
        text = f"{len(ready)} of {len(wanted)} ready"
        if self._seen_starting:
            text += f" in {now - self._began:.1f} s"
        if idle:
            text += f", {idle} of them idle"
        if unwell := sum(view.health in ("degraded", "error") for view in ready):
            text += f", {unwell} of them not well"
        if len(ready) < len(wanted):
            text += "; `pallasctl status` shows the rest"
        said += [Say(""), Say(text)]
        if ready:
            most = max(ready, key=lambda view: len(view.needs))
            said.append(Say(f'{self._way_out} Ask an agent: pallasctl ask {most.name} "Hello"'))
        return said

    def _moved(self, known: _Known, before: AgentView, view: AgentView, now: float) -> list[Say]:
        said: list[Say] = []
        if view.state != before.state:
            pause = PATIENCE.get(view.state)
            known.since, known.notice = now, None if pause is None else now + pause
        if view.state != before.state or view.generation != before.generation:
            said += self._changed(known, before, view, now)
        if view.state == "ready":
            said += _health(known, view)
        return said

    def _changed(self, known: _Known, before: AgentView, view: AgentView, now: float) -> list[Say]:
        name = view.name
        if before.state in ("stopped", "failed", "ready", "idle") and view.state != "ready":
            known.begun = now
        match view.state:
            case "ready" if before.state == "ready":
                return [Say(f"a new worker serves, process {view.pid}", "replaced", "good", name)]
            case "ready":
                known.told = ""
                again, known.was_ready = known.was_ready, True
                note = f"{'again after' if again else 'in'} {now - known.begun:.1f} s"
                if (
                    before.generation == 0 and before.state == "stopped"
                ):  # it was ready when it was first seen
                    note = ""
                self._seen_starting = self._seen_starting or bool(note)
                if view.on_demand and not self._has_few_on_demand():
                    return []
                return [Say(view.url or f"process {view.pid}", "ready", "good", name, note)]
            case "idle" if before.generation and self._has_few_on_demand():
                return [Say("starts when somebody connects", "idle", "dim", name)]
            case "backoff":
                return [Say(view.message, "crashed", "warn", name, "", self._last_lines(known), problem=True)]
            case "failed":
                ways = (
                    f"once it is mended: pallasctl start {name}",
                    f"more: pallasctl logs {name}",
                )
                lines = self._last_lines(known)
                return [Say(view.message, "failed", "bad", name, "", (*lines, *ways), problem=True)]
            case "stopped" if before.generation or before.state != "stopped":
                took = now - known.begun
                if self.stopping and took < PATIENCE["stopping"]:
                    return []
                return [Say(view.message, "stopped", "dim", name, f"after {took:.1f} s" if took >= 1 else "")]
            case _ if view.failures > before.failures:
                return [
                    Say(
                        view.last_exit or "",
                        "crashed",
                        "warn",
                        name,
                        "",
                        self._last_lines(known),
                        problem=True,
                    )
                ]
            case _:
                return []

    def _has_few_on_demand(self) -> bool:
        return self._on_demand <= FEW

    def _last_lines(self, known: _Known) -> tuple[str, ...]:
        """What it has printed last, where that was not shown at its last failure."""
        printed = tuple(self._output(known.view.name))
        shown, known.printed = known.printed, printed
        return () if printed == shown else tuple(f"| {line}" for line in printed)


def _health(known: _Known, view: AgentView) -> list[Say]:
    said = view.message if view.health in ("degraded", "error") else ""
    if view.health == "unknown" or said == known.told:
        return []
    known.told = said
    if not said:
        return [Say("is well again", "ok", "good", view.name)]
    tone = "bad" if view.health == "error" else "warn"
    return [Say(said, view.health, "bad" if tone == "bad" else "warn", view.name, problem=True)]


def _needed_first(views: Mapping[str, AgentView]) -> list[str]:
    """The agents' names, each behind those that it needs: a look may see several become ready at once."""
    needs = {name: [need for need in view.needs if need in views] for name, view in views.items()}
    return [*TopologicalSorter(needs).static_order()]


def _still(view: AgentView, seconds: float) -> Say:
    texts = {
        "waiting": view.message,
        "starting": f"not ready after {seconds:.0f} s; `pallasctl logs {view.name}` shows what it does",
        "stopping": f"finishes its calls, {seconds:.0f} s so far",
        "killing": f"process {view.pid} does not end, {seconds:.0f} s so far",
    }
    return Say(texts[view.state], view.state, "warn", view.name, problem=view.state == "killing")
