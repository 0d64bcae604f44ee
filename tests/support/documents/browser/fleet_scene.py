"""A fleet that is made up, for pictures of the status page.

Knows the page's facts; starts no agent. The figures are invented.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pallas_registry.catalogue.entries import endpoint
from pallas_supervisor.http.page.data.facts import AgentFacts, DeploymentFacts, count_of
from pallas_supervisor.http.page.data.history import INTERVAL, POINTS, WINDOW, Count, History, together
from pallas_supervisor.http.page.data.samples import Samples
from pallas_supervisor.lifecycle.states import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_common.protocol.reports import Status


class MadeUp:
    """A fleet that had a rough quarter of an hour; says the same each time it is made."""

    def __init__(self) -> None:
        self._random = random.Random(5)
        self._history = History(0.0)
        self._samples = Samples()
        self._agents: list[AgentFacts] = []
        self._rows()

    async def facts(self) -> DeploymentFacts:
        """What the page is to show."""
        return DeploymentFacts(
            name="observatory",
            health="degraded",
            agents=tuple(self._agents),
            trend=together(agent.trend for agent in self._agents),
            samples=self._samples,
        )

    def _rows(self) -> None:
        counts: dict[str, list[Count]] = {
            "jarvis": self._calls(40, 0.02, 2600),
            "research": self._calls(24, 0.03, 5200),
            "engineering": self._calls(9, 0.0, 3100),
            "library": self._calls(16, 0.12, 900, until=0.93),
            "archive": self._calls(4, 0.0, 700),
            "translator": [Count()] * POINTS,
            "night_shift": [Count()] * POINTS,
        }
        memory = {
            name: self._memory(base)
            for name, base in zip(counts, (118, 142, 109, 131, 96, 0, 0), strict=True)
        }
        self._history.change("library", "ready", 0.0)
        for at in (0.55, 0.71, 0.92):
            for offset, state in (
                (0.0, "killing"),
                (0.1, "backoff"),
                (1.0 + 20 * at * (at > 0.7), "starting"),
                (60, "ready"),
            ):
                if at < 0.9 or state in ("killing", "backoff"):
                    self._history.change("library", state, at * WINDOW + min(offset, 40.0))
        self._history.change("research", "ready", 0.0)
        self._history.change("research", "starting", 0.4 * WINDOW)
        self._history.change("research", "ready", 0.4 * WINDOW + 0.2)
        self._history.change("night_shift", "stopped", 0.0)
        self._history.change("translator", "stopped", 0.0)
        self._history.change("translator", "starting", 0.8 * WINDOW)
        self._history.change("translator", "failed", 0.8 * WINDOW + 2)
        for name in ("jarvis", "engineering", "archive"):
            self._history.change(name, "ready", 0.0)
        total = dict.fromkeys(counts, Count())
        for index in range(POINTS):
            total = {name: total[name].plus(counts[name][index]) for name in counts}
            used = {name: sizes[index] for name, sizes in memory.items() if sizes[index]}
            if index / POINTS >= 0.92:
                used.pop("library", None)
            self._history.record(total, used, (index + 1) * INTERVAL)
        for name, count in total.items():
            self._totals(name, count)
        self._agent("jarvis", "Jarvis", ("research", "engineering", "library"), minutes=412)
        self._agent("research", "Research Agent", ("library", "archive"), minutes=9, restarts=1)
        self._agent(
            "engineering",
            "Engineering Agent",
            ("archive",),
            minutes=412,
            health="degraded",
            why="downstream unreachable: build-farm (no answer in time)",
        )
        self._agent(
            "library",
            "Library",
            (),
            minutes=1,
            state=State.BACKOFF,
            why="killed by SIGKILL; restarting in 4 s, failure 3/5",
            restarts=4,
        )
        self._agent("archive", "Archive", (), minutes=412)
        self._agent(
            "translator",
            "Translator",
            (),
            minutes=3,
            state=State.FAILED,
            why="agents/translator.py:5: SyntaxError: '(' was never closed",
        )
        self._agent("night_shift", "Night Shift", (), minutes=530, state=State.STOPPED, wanted=False)
        used_now = {name: sizes[-1] for name, sizes in memory.items()}
        self._agents = [
            agent if agent.state is not State.READY else _with_memory(agent, used_now[agent.name])
            for agent in self._agents
        ]
        self._samples.downstreams["files"] = {"research": True, "archive": True}
        self._samples.downstreams["build-farm"] = {"engineering": False}
        self._samples.downstreams["search"] = {"research": True}
        self._samples.providers["openai"] = True

    def _calls(self, rate: float, failing: float, tokens: int, until: float = 1.0) -> list[Count]:
        found = []
        for index in range(POINTS):
            wave = 0.75 + 0.5 * math.sin(index / 9) ** 2 + self._random.uniform(-0.3, 0.3)
            calls = round(rate / 4 * wave) if index / POINTS < until else 0
            errors = sum(self._random.random() < failing for _ in range(calls))
            found.append(Count(calls, errors, round(calls * tokens * self._random.uniform(0.7, 1.3))))
        return found

    def _memory(self, base: int) -> list[int]:
        size, found = float(base), []
        for _ in range(POINTS):
            size += self._random.uniform(-1.2, 1.5)
            found.append(int(size * 2**20) if base else 0)
        return found

    def _totals(self, name: str, count: Count) -> None:
        totals = self._samples.agents[name]
        totals.calls, totals.errors = count.calls, count.errors
        model = "gpt-5-mini" if name in ("library", "archive") else "gpt-5"
        totals.tokens["input"] = int(count.tokens * 0.88)
        totals.tokens["output"] = int(count.tokens) - totals.tokens["input"]
        if not count.tokens:
            return
        shared = self._samples.models[model]
        shared.turns += count.calls * 2
        shared.tokens.update(totals.tokens)
        shared.tokens["cache_read"] += int(count.tokens * 0.41)
        shared.tokens["reasoning"] += int(count.tokens * 0.05)
        totals.running = {"jarvis": 3, "research": 1}.get(name, 0)

    def _agent(
        self,
        name: str,
        title: str,
        needs: Sequence[str],
        *,
        minutes: int,
        state: State = State.READY,
        health: Status | None = None,
        why: str = "",
        restarts: int = 0,
        wanted: bool = True,
    ) -> None:
        totals = self._samples.agents[name]
        self._agents.append(
            AgentFacts(
                name=name,
                title=title,
                url=endpoint("localhost", 24201 + len(self._agents)),
                serves=f"agents.{name}",
                model="openai.gpt-5-mini" if name in ("library", "archive") else "openai.gpt-5",
                project="",
                available=state in (State.READY, State.IDLE),
                needs=tuple(needs),
                state=state,
                wanted=wanted,
                since=datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=minutes),
                health=health or ("ok" if state in (State.READY, State.IDLE) else "error"),
                why=why,
                restarts=restarts,
                memory=None,
                totals=totals,
                trend=self._history.trend(name, count_of(totals), WINDOW),
                stretches=tuple(self._history.stretches(name)),
            )
        )


def _with_memory(agent: AgentFacts, size: int) -> AgentFacts:
    return replace(agent, memory=size)
