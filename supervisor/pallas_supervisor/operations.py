"""The operator's verbs on a fleet: start, stop, restart, wait. What the control API calls.

Knows the fleet; nothing of HTTP, and nothing of the configuration files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pallas_supervisor.refusals import UnknownAgentError
from pallas_supervisor.states import Restart, Start, State, Stop

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_supervisor.fleet import Fleet

Goal = Literal["ready", "stopped", "settled"]

SETTLED = frozenset({State.READY, State.STOPPED, State.FAILED})


class Operations:
    """The verbs."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def resolve(self, names: Iterable[str]) -> tuple[str, ...]:
        """The named agents, all if there are none, in start order.

        Raises:
            UnknownAgentError: some are not deployed.
        """
        agents = self._fleet.agents
        wanted = set(names)
        if unknown := sorted(wanted - set(agents)):
            raise UnknownAgentError(f"no agent {', '.join(unknown)} here; there are {', '.join(agents)}")
        return tuple(name for name in self._fleet.engine.graph.start_order if not wanted or name in wanted)

    def start(self, names: Iterable[str]) -> tuple[str, ...]:
        """Want the agents up, and what they depend on; the agents that were named."""
        targets = self.resolve(names)
        self._fleet.engine.start(targets)
        return targets

    def stop(self, names: Iterable[str]) -> tuple[str, ...]:
        """Want the agents down, dependents first."""
        targets = self.resolve(names)
        for name in reversed(targets):
            self._fleet.engine.post(name, Stop())
        return targets

    def restart(self, names: Iterable[str]) -> tuple[str, ...]:
        """Want new processes for the agents, and what they depend on up."""
        targets = self.resolve(names)
        for name in self._fleet.engine.graph.needed_by(targets):
            self._fleet.engine.post(name, Restart() if name in targets else Start())
        return targets

    async def wait(self, names: Iterable[str], goal: Goal, *, beyond: dict[str, int] | None = None) -> bool:
        """Wait until every agent has reached the goal, or one cannot any more; whether all have.

        Args:
            beyond: generations that a restarted agent has to have left behind.
        """
        targets = self.resolve(names)
        engine = self._fleet.engine
        left_behind = beyond or {}

        def decided(name: str) -> bool | None:
            agent = engine.agents.get(name)
            if agent is None:
                return goal != "ready"
            if goal == "settled":
                return True if agent.state in SETTLED else None
            if goal == "stopped":
                return {State.STOPPED: True, State.FAILED: agent.pid is None}.get(agent.state)
            if agent.state is State.READY:
                return True if agent.generation > left_behind.get(name, 0) else None
            return False if agent.state in (State.FAILED, State.STOPPED) else None

        def all_decided() -> bool:
            verdicts = [decided(name) for name in targets]
            return None not in verdicts

        await engine.until(all_decided)
        return all(decided(name) for name in targets)
