"""Notifications to the parts of the supervisor: plain calls, in an order that the wiring fixes.

Knows no part. One that fails is logged and costs no other its call: a defect of a counter must not keep a port from
being answered on. Parts are called when something happens, so that none has to be passed the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_registry.source import Configuration
    from pallas_supervisor.lifecycle.states import Transition, WorkerId


_log = get_logger("pallas.supervisor.engine")


class Listeners[*Arguments]:
    """The listeners of one kind of event; a call calls all of them, in the order in which they were added."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[*Arguments], None]] = []

    def add(self, *listeners: Callable[[*Arguments], None]) -> None:
        """Call these, too, after all others."""
        self._listeners.extend(listeners)

    def __call__(self, *arguments: *Arguments) -> None:
        """Call all of them."""
        for listener in self._listeners:
            attempt(listener, *arguments)


class Parts:
    """All that parts can listen to."""

    def __init__(self) -> None:
        self.transition: Listeners[Transition] = Listeners()
        """An agent has another state, process or second worker."""
        self.restart_counted: Listeners[str, str] = Listeners()
        """An agent's worker is started again; with the reason."""
        self.start_observed: Listeners[str, float] = Listeners()
        """An agent's worker has become ready; with the seconds since its spawn."""
        self.process_gone: Listeners[WorkerId] = Listeners()
        """Nothing is left of a worker."""
        self.agent_removed: Listeners[str] = Listeners()
        """An agent has left the deployment; it has no worker any more."""
        self.configuration_changed: Listeners[Configuration, Configuration] = Listeners()
        """A reload has taken on another configuration; with the one before and the new one."""
        self.changed: Listeners[()] = Listeners()
        """What is shown of the agents to people or clients is not what it was."""


def attempt[*Arguments](do: Callable[[*Arguments], None], *arguments: *Arguments) -> None:
    """Do it, and log it if it fails."""
    try:
        do(*arguments)
    except Exception:  # noqa: BLE001 - whatever it is
        _log.exception(f"{getattr(do, '__qualname__', do)} failed")
