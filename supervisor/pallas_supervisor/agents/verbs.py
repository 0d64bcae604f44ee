"""The operator's verbs: start, stop, restart, wait. What the control API calls.

Knows the engine; nothing of HTTP, and nothing of the configuration files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pallas_common.problems import no_such_agent
from pallas_supervisor.agents.errors import RefusedError, UnknownAgentError
from pallas_supervisor.lifecycle.events import Arm, HardRestart, RollingRestart, Stop
from pallas_supervisor.lifecycle.states import RESTING, Desired, State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.lifecycle.states import Agent

Goal = Literal["ready", "stopped", "settled"]

SETTLED = frozenset({State.READY, State.IDLE, State.STOPPED, State.FAILED})


class OperatorVerbs:
    """The verbs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def resolve(self, names: Iterable[str]) -> tuple[str, ...]:
        """The named agents, all if there are none, in start order.

        Raises:
            UnknownAgentError: some are not deployed.
        """
        agents = self._engine.agents
        wanted = set(names)
        if unknown := sorted(wanted - set(agents)):
            raise UnknownAgentError(no_such_agent(unknown, agents))
        return tuple(name for name in self._engine.graph.start_order if not wanted or name in wanted)

    def start(self, names: Iterable[str]) -> tuple[str, ...]:
        """Want a worker of each of the agents now, and what they depend on up; the agents that were named."""
        named = set(names)
        targets = self.resolve(named)
        if named:
            self._engine.start(targets)
        else:  # a thousand agents that start on demand are not all wanted at once
            self._engine.arm(targets)
        return targets

    def stop(self, names: Iterable[str], *, cascade: bool = False) -> tuple[str, ...]:
        """Want the agents down, dependents first.

        Args:
            cascade: stop those that depend on them as well.

        Raises:
            RefusedError: others need them, and `cascade` does not say that these are to be stopped.
        """
        named = self.resolve(names)
        graph = self._engine.graph
        targets = graph.needing(named)
        others = [name for name in targets if name not in named and self._is_wanted(name)]
        if others and not cascade:
            need, them = ("needs", "it") if len(others) == 1 else ("need", "them")
            raise RefusedError(
                f"{', '.join(others)} {need} {', '.join(named)}; stop {them} as well with --cascade, or name {them}"
            )
        for name in reversed(targets if cascade else named):
            self._engine.post(name, Stop())
        return targets if cascade else named

    def restart(self, names: Iterable[str]) -> tuple[str, ...]:
        """Want new processes for the agents, each ready before the old one drains, and what they depend on up."""
        return self._restart(names, RollingRestart("operator"))

    def restart_now(self, names: Iterable[str]) -> tuple[str, ...]:
        """Want new processes for the agents, started when the old ones have ended, and what they depend on up."""
        return self._restart(names, HardRestart())

    def _restart(self, names: Iterable[str], event: RollingRestart | HardRestart) -> tuple[str, ...]:
        named = set(names)
        targets = self.resolve(named)
        renewed = {name for name in targets if named or self._engine.agents[name].has_process}
        for name in self._engine.graph.needed_by(targets):
            self._engine.post(name, event if name in renewed else Arm())
        return targets

    def _is_wanted(self, name: str) -> bool:
        return self._engine.agents[name].desired is Desired.UP

    def newest(self) -> dict[str, int]:
        """The newest generation of each agent, for `wait` to go beyond."""
        return {name: agent.last_generation for name, agent in self._engine.agents.items()}

    async def wait(self, names: Iterable[str], goal: Goal, *, beyond: dict[str, int] | None = None) -> bool:
        """Wait until every agent has reached the goal, or one cannot any more; whether all have.

        Args:
            beyond: generations that a restarted agent has to have left behind, its old worker gone.
        """
        targets = self.resolve(names)
        engine = self._engine
        left_behind = beyond or {}

        def decided(name: str) -> bool | None:
            agent = engine.agents.get(name)
            if agent is None:
                return goal != "ready"
            if goal == "settled":
                return True if agent.state in SETTLED else None
            if goal == "stopped":
                return {State.STOPPED: True, State.FAILED: agent.pid is None}.get(agent.state)
            if agent.state is State.IDLE:
                return None if name in left_behind and agent.is_surging else True
            if agent.state is State.READY:
                return _is_left_behind(agent, left_behind[name]) if name in left_behind else True
            if agent.state in RESTING or self._is_hopeless(name):
                return False
            return None

        def all_decided() -> bool:
            verdicts = [decided(name) for name in targets]
            return None not in verdicts

        await engine.until(all_decided)
        return all(decided(name) for name in targets)

    def _is_hopeless(self, name: str) -> bool:
        """Whether the agent waits for a dependency that will not be started."""
        engine = self._engine
        if engine.agents[name].state is not State.WAITING:
            return False
        return any(
            engine.agents[need].state in RESTING or self._is_hopeless(need) for need in engine.awaited(name)
        )


def _is_left_behind(agent: Agent, generation: int) -> bool | None:
    """Whether a READY agent has replaced that generation; None while it may still come."""
    if agent.generation > generation:
        return None if agent.is_surging else True
    return None if agent.replace is not None or agent.second_worker is not None else False
