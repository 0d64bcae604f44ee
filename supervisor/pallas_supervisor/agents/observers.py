"""Observers of the agents: parts of the supervisor that are called at each change, in an order that the wiring fixes.

Knows no part. One that fails is logged and costs no other its call: a defect of a counter must not keep a port from
being answered on. Nor has a part to be passed the others to look at.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_registry.source import Configuration
    from pallas_supervisor.events.resource_events import ResourceCause
    from pallas_supervisor.lifecycle.events import Died
    from pallas_supervisor.lifecycle.states import Agent, Transition, WorkerId


_log = get_logger("pallas.supervisor.engine")


class Observers[*Arguments]:
    """The observers of one kind of event; a call calls all of them, in the order in which they were added."""

    def __init__(self) -> None:
        self._observers: list[Callable[[*Arguments], None]] = []

    def add(self, *observers: Callable[[*Arguments], None]) -> None:
        """Call these, too, after all others."""
        self._observers.extend(observers)

    def __call__(self, *arguments: *Arguments) -> None:
        """Call all of them."""
        for observer in self._observers:
            attempt(observer, *arguments)


class ObserversOnce(Observers[()]):
    """Observers that are called once a turn of the loop, however often something happened in it."""

    def __init__(self) -> None:
        super().__init__()
        self._is_due = False

    def __call__(self) -> None:
        """Call all of them when all that happens now has happened."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._call)

    def _call(self) -> None:
        self._is_due = False
        super().__call__()


class AgentObservers:
    """All that can be observed."""

    def __init__(self) -> None:
        self.transition: Observers[Transition] = Observers()
        """An agent has another state, process or second worker."""
        self.restart_counted: Observers[str, str] = Observers()
        """An agent's worker is started again; with the reason."""
        self.start_observed: Observers[str, float] = Observers()
        """An agent's worker has become ready; with the seconds since its spawn."""
        self.ended: Observers[Agent, Died] = Observers()
        """A worker's process has ended, and all that it wrote is read; with the agent as it was until then."""
        self.health_reported: Observers[Agent] = Observers()
        """The worker that an agent's state is about has said how it is, which may be the same as before."""
        self.process_gone: Observers[WorkerId] = Observers()
        """Nothing is left of a worker."""
        self.agent_removed: Observers[str] = Observers()
        """An agent has left the deployment; it has no worker any more."""
        self.configuration_changed: Observers[Configuration, Configuration] = Observers()
        """A reload has taken on another configuration; with the one before and the new one."""
        self.resources_changed: Observers[Configuration, Configuration, ResourceCause] = Observers()
        """The same, with why its resources may be others."""
        self.changed = ObserversOnce()
        """What is shown of the agents to people or clients is not what it was."""


def attempt[*Arguments](do: Callable[[*Arguments], None], *arguments: *Arguments) -> None:
    """Do it, and log it if it fails."""
    try:
        do(*arguments)
    except Exception:  # noqa: BLE001 - whatever it is
        _log.exception(f"{getattr(do, '__qualname__', do)} failed")
