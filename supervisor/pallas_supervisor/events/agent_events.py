"""What happens to agents, as events: an observer of each change, in the words of the status document.

Knows the fields of these events, which clients read; decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_supervisor.lifecycle.exits import describe_exit
from pallas_supervisor.lifecycle.states import label

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_registry.source import Configuration
    from pallas_supervisor.events.log import EventLog
    from pallas_supervisor.lifecycle.states import Agent, Transition

AGENT = "agent"
CONFIGURATION = "configuration"

type Health = tuple[str, str]
"""An agent's health in a word, and what it says of it, or nothing."""


class AgentEvents:
    """Tells the log what happens to agents.

    Args:
        why: one line on why an agent is in its state; empty when there is nothing to say.
        health: what the status document says of an agent's health.
        kind: of the events.
    """

    def __init__(
        self, log: EventLog, why: Callable[[Agent], str], health: Callable[[Agent], Health], kind: str = AGENT
    ) -> None:
        self._log = log
        self._kind = kind
        self._why = why
        self._health = health
        self._known: dict[str, Health] = {}
        """What was last told of each agent's health."""

    def transition(self, change: Transition) -> None:
        """An agent has another state, process or second worker."""
        if change.of_state or change.after.generation != change.before.generation:
            self._tell_state(change.before, change.after)
        else:
            self._tell_replacement(change.before, change.after)

    def health_reported(self, agent: Agent) -> None:
        """An agent has said how it is; that is told where it is not what was told before."""
        health = self._health(agent)
        previous, _ = before = self._known.get(agent.name, ("unknown", ""))
        if health != before:
            self._known[agent.name] = health
            word, message = health
            self._tell(agent.name, "health", health=word, previous=previous, message=message)

    def restart_counted(self, name: str, reason: str) -> None:
        """An agent's worker is started again."""
        self._tell(name, "restart", reason=reason)

    def configuration_changed(self, before: Configuration, after: Configuration) -> None:
        """A reload has taken on the configuration as it is now, which may be the same."""
        old, new = before.deployment.agents, after.deployment.agents
        added = [name for name in new if name not in old]
        changed = [name for name, agent in new.items() if name in old and old[name] != agent]
        removed = [name for name in old if name not in new]
        deployment = after.deployment.name
        self._log.add(CONFIGURATION, deployment, "reloaded", added=added, removed=removed, changed=changed)
        for name in removed:
            self._known.pop(name, None)
            self._tell(name, "removed")
        for name in added:
            self._tell(name, "added")
        for name in changed:
            self._tell(name, "changed")

    def _tell_state(self, before: Agent, after: Agent) -> None:
        health, _ = told = self._health(after)
        if after.has_process:
            self._known[after.name] = told
        else:
            self._known.pop(
                after.name, None
            )  # it may be one that has been removed, to be remembered for ever
        more: dict[str, object] = {
            "state": str(after.state),
            "previous": str(before.state),
            "generation": after.generation,
            "pid": after.pid,
            "health": health,
            "message": self._why(after),
        }
        if after.last_exit is not None and after.last_exit is not before.last_exit:
            more["exit"] = describe_exit(after.last_exit)
        self._tell(after.name, "state", **more)

    def _tell_replacement(self, before: Agent, after: Agent) -> None:
        """A step of the worker beside the one that the state is about."""
        if (second_worker := after.second_worker or before.second_worker) is None:
            return  # it is due, or not any more
        stage = "gone" if after.second_worker is None else str(second_worker.state)
        self._tell(
            after.name,
            "replacement",
            replacement=stage,
            generation=second_worker.generation,
            pid=second_worker.pid,
            message=self._why(after) or self._health(after)[1],  # as in the status document
        )

    def _tell(self, name: str, event: str, **more: object) -> None:
        self._log.add(self._kind, label(name), event, **more)
