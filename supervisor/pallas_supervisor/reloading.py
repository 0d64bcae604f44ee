"""Reload: read the configuration again and move only what it changed. What the control API and SIGHUP call.

Knows the fleet and the configuration files; `plan` decides what a change means.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from pallas_registry.agents_file import read_deployment
from pallas_registry.log_levels import levels
from pallas_registry.model_settings import read_model_settings
from pallas_supervisor.fleet import graph_of
from pallas_supervisor.listeners import close_listeners, open_listeners
from pallas_supervisor.plan import Plan, plan_reload
from pallas_supervisor.refusals import RefusedError
from pallas_supervisor.specs import policy_of
from pallas_supervisor.states import RESTING, Desired, Redefine, Start, Stop

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from pallas_registry.deployment import Deployment
    from pallas_supervisor.fleet import Fleet

_log = logging.getLogger("pallas.supervisor.reloading")


class Reloading:
    """Takes on changed configurations, one at a time.

    Args:
        directory: where `fastagent.config.yaml` is.
    """

    def __init__(self, fleet: Fleet, directory: Path) -> None:
        self._fleet = fleet
        self._directory = directory
        self._turn = asyncio.Lock()

    def _refuse_at_the_end(self) -> None:
        if self._fleet.engine.shutting_down:
            raise RefusedError("the supervisor is stopping; start it again for the new configuration")

    async def reload(self, *, dry_run: bool) -> Plan:
        """Read the configuration again and move only what it changed; on any error nothing has changed.

        Raises:
            ConfigurationError: the files cannot be used.
            RefusedError: a field changed that a running supervisor cannot change.
            PortsTakenError: a new port is taken.
        """
        async with self._turn:
            fleet = self._fleet
            new = read_deployment(fleet.deployment.path)
            settings = read_model_settings(self._directory, os.environ)
            chosen = levels(os.environ, settings.log_level)
            plan = plan_reload(fleet.deployment, new, old_settings=fleet.settings, new_settings=settings)
            if plan.fixed:
                fields = " and ".join(plan.fixed)
                raise RefusedError(
                    f"{fields} changed, which needs a restart of the supervisor; nothing was changed"
                )
            if dry_run:
                return plan
            self._refuse_at_the_end()
            opened = self._open(plan, new)
            await self._remove(plan)
            if fleet.engine.shutting_down:  # meanwhile; nothing may be started any more
                close_listeners(opened.values())
                self._refuse_at_the_end()
            fleet.settings = settings
            fleet.levels = chosen
            self._apply(plan, new, opened)
            _log.info(
                "reloaded: %d added, %d removed, %d changed, %d unchanged",
                *map(len, (plan.added, plan.removed, plan.changed, plan.unchanged)),
            )
            return plan

    def _open(self, plan: Plan, new: Deployment) -> dict[str, socket.socket]:
        """The listening sockets of agents that are new or move; a port that another one gives up changes hands."""
        fleet = self._fleet
        rebound = [name for name, change in plan.changed.items() if change.action == "rebind"]
        given_up = {fleet.deployment.agents[name].port: name for name in (*plan.removed, *rebound)}
        wanted = {name: new.agents[name].port for name in (*plan.added, *rebound)}
        fresh = {name: port for name, port in wanted.items() if port not in given_up}
        opened = open_listeners(new.bind, fresh, patience=0.0)
        try:
            for name in wanted.keys() - fresh.keys():
                opened[name] = fleet.listeners[given_up[wanted[name]]].dup()
        except OSError:
            close_listeners(opened.values())
            raise
        return opened

    async def _remove(self, plan: Plan) -> None:
        if not plan.removed:
            return
        fleet = self._fleet
        leaving = [name for name in fleet.engine.graph.stop_order if name in plan.removed]

        def wanted() -> list[str]:
            return [name for name in leaving if fleet.agents[name].desired is Desired.UP]

        def at_rest() -> bool:
            return all(fleet.agents[name].state in RESTING for name in leaving)

        while wanted() or not at_rest():  # somebody may start one meanwhile
            for name in wanted():
                fleet.engine.post(name, Stop())
            await fleet.engine.until(lambda: bool(wanted()) or at_rest())
        for name in plan.removed:
            fleet.remove_stand_in(name)
            close_listeners([fleet.listeners.pop(name)])
            fleet.slots.remove(name)
            fleet.metrics.forget(name)
            fleet.hub.forget(name)
            fleet.models.pop(name, None)

    def _apply(self, plan: Plan, new: Deployment, opened: dict[str, socket.socket]) -> None:
        fleet = self._fleet
        for name, listener in opened.items():
            if (old := fleet.listeners.get(name)) is not None:
                fleet.remove_stand_in(name)
                close_listeners([old])
            fleet.listeners[name] = listener
        fleet.deployment = new
        fleet.engine.redefine(graph_of(new), {name: policy_of(agent) for name, agent in new.agents.items()})
        for name in opened:
            fleet.add_stand_in(name)
        for name, change in plan.changed.items():
            fleet.engine.post(name, Redefine(policy_of(new.agents[name]), respawn=change.action != "live"))
        for name in plan.added:
            fleet.engine.post(name, Start())
