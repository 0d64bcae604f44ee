"""Reload: read the configuration again and move only what it changed. What the control API and SIGHUP call.

Knows the fleet and what its configuration says; `plan` decides what a change means.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING

from pallas_common.logs.own_loggers import own_logger
from pallas_common.logs.setup import get_logger
from pallas_common.problems import ConfigurationError
from pallas_supervisor.agents.errors import RefusedError
from pallas_supervisor.agents.manager import graph_of
from pallas_supervisor.agents.worker_spec import policy_of
from pallas_supervisor.lifecycle.dependencies import Graph
from pallas_supervisor.lifecycle.events import Rebind, Redefine, Start, Stop
from pallas_supervisor.lifecycle.states import RESTING, Desired, State
from pallas_supervisor.reload.plan import FIXED_VARIABLES, Plan, plan_reload
from pallas_supervisor.reload.source import DOTENV, take_over
from pallas_supervisor.sockets.listeners import close_listeners, open_listeners

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from pallas_registry.deployment.model import Deployment
    from pallas_supervisor.agents.manager import AgentManager
    from pallas_supervisor.lifecycle.states import Agent
    from pallas_supervisor.reload.source import Configuration

_log = get_logger("pallas.supervisor.reloading")

UNTOUCHED = frozenset({State.STOPPED, State.WAITING})
"""States without a process, from which the next start takes the newest configuration anyway."""


class Reloading:
    """Takes on changed configurations, one at a time.

    Args:
        around: entered for each reload that may change something, and left when it is over.
    """

    def __init__(
        self, fleet: AgentManager, around: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._fleet = fleet
        self._around = around
        self._turn = asyncio.Lock()
        self._asked = False
        self._answering: set[asyncio.Task[None]] = set()

    def ask(self) -> None:
        """Reload without anybody waiting for it, as SIGHUP wants; only the log tells how it went.

        One that waits for its turn will read what the files say then: it answers for all that ask meanwhile.
        """
        if self._asked:
            return
        self._asked = True
        task = asyncio.create_task(self._answer(), name="reload")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self) -> None:
        async with self._turn:
            self._asked = False
            try:
                await self._reload(dry_run=False)
            except ConfigurationError:
                pass  # has been told already
            except Exception as error:  # noqa: BLE001 - a failed reload must not take the supervisor down
                _log.error("cannot reload: %s", error)

    async def reload(self, *, dry_run: bool) -> Plan:
        """Read the configuration again and move only what it changed; on any error nothing has changed.

        Raises:
            ConfigurationError: the files cannot be used.
            RefusedError: a field changed that a running supervisor cannot change.
            PortsTakenError: a new port is taken.
        """
        async with self._turn:
            return await self._reload(dry_run=dry_run)

    async def _reload(self, *, dry_run: bool) -> Plan:
        with nullcontext() if dry_run else self._around():
            return await self._take(dry_run=dry_run)

    async def _take(self, *, dry_run: bool) -> Plan:
        fleet = self._fleet
        try:
            newest = await fleet.drift.read()
        except ConfigurationError as error:
            if not dry_run:
                for problem in error.problems:
                    _log.error("%s", problem)
                _log.error("the configuration cannot be used; nothing was changed")
            raise
        plan = plan_reload(fleet.deployment, newest.deployment, self._outdated())
        self._refuse_fixed(plan, newest)
        self._refuse_undead(plan)
        if dry_run:
            return plan
        self._refuse_at_the_end()
        with ExitStack() as opened_for_nothing:
            opened = self._open(plan, newest.deployment)
            opened_for_nothing.callback(close_listeners, opened.values())
            await self._stop(plan, newest.deployment)
            self._refuse_at_the_end()  # meanwhile; nothing may be started any more
            opened_for_nothing.pop_all()
        self._forget(plan)
        self._take_over(newest)
        self._apply(plan, newest.deployment, opened)
        for warning in newest.warnings:
            _log.warning("%s", warning)
        _log.info(
            "reloaded: %d added, %d removed, %d changed, %d unchanged",
            *map(len, (plan.added, plan.removed, plan.changed, plan.unchanged)),
        )
        return plan

    def _outdated(self) -> dict[str, tuple[str, ...]]:
        """Of every agent that has to do something about it: not if its replacement is on its way."""
        return {
            name: self._fleet.drift.outdated(name, upcoming(agent))
            for name, agent in self._fleet.agents.items()
            if agent.state not in UNTOUCHED and agent.replace is None
        }

    def _refuse_fixed(self, plan: Plan, newest: Configuration) -> None:
        before, after = self._fleet.drift.taken.dotenv, newest.dotenv
        variables = [name for name in FIXED_VARIABLES if before.get(name) != after.get(name)]
        if fixed := [*plan.fixed, *(f"{name} ({DOTENV})" for name in variables)]:
            fields = " and ".join(fixed)
            raise RefusedError(
                f"{fields} changed, which needs a restart of the supervisor; nothing was changed"
            )

    def _refuse_undead(self, plan: Plan) -> None:
        if undead := [name for name in plan.added if name in self._fleet.engine.unkillable]:
            names = ", ".join(undead)
            raise RefusedError(
                f"{names} was removed before and a process of it cannot be killed; nothing was changed: reload again "
                "when it is gone, or use another name"
            )

    def _refuse_at_the_end(self) -> None:
        if self._fleet.engine.shutting_down:
            raise RefusedError("the supervisor is stopping; start it again for the new configuration")

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

    async def _stop(self, plan: Plan, new: Deployment) -> None:
        """Stop the agents that leave, dependents first."""
        fleet = self._fleet
        if plan.removed:  # who does not depend on them any more is not to be told that they go
            policies = {name: agent.policy for name, agent in fleet.agents.items()}
            fleet.engine.redefine(meanwhile(fleet.deployment, new), policies)
        leaving = [name for name in fleet.engine.graph.stop_order if name in plan.removed]

        def wanted() -> list[str]:
            return [name for name in leaving if fleet.agents[name].desired is Desired.UP]

        def at_rest() -> bool:
            return all(fleet.agents[name].state in RESTING for name in leaving)

        while wanted() or not at_rest():  # somebody may start one meanwhile
            for name in wanted():
                fleet.engine.post(name, Stop())
            await fleet.engine.until(lambda: bool(wanted()) or at_rest())

    def _forget(self, plan: Plan) -> None:
        fleet = self._fleet
        for name in plan.removed:
            fleet.responders.close(name)
            close_listeners([fleet.listeners.pop(name)])
            fleet.slots.remove(name)
            fleet.metrics.forget(name)
            fleet.log_router.forget(name)
            fleet.reports.forget(name)
            fleet.health_history.forget(name)
            fleet.drift.forget(name)

    def _take_over(self, newest: Configuration) -> None:
        fleet = self._fleet
        take_over(newest.dotenv, fleet.drift.taken.dotenv)
        if newest.levels != fleet.levels:  # our own follow at once, a worker's with its next start
            logging.getLogger().setLevel(newest.levels.root)
            own_logger().setLevel(newest.levels.pallas)
        fleet.levels = newest.levels
        fleet.settings = newest.settings
        fleet.drift.taken = newest

    def _apply(self, plan: Plan, new: Deployment, opened: dict[str, socket.socket]) -> None:
        fleet = self._fleet
        for name, listener in opened.items():
            if (old := fleet.listeners.get(name)) is not None:
                fleet.responders.close(name)
                close_listeners([old])
            fleet.listeners[name] = listener
        fleet.deployment = new
        fleet.engine.redefine(graph_of(new), {name: policy_of(agent) for name, agent in new.agents.items()})
        for name in opened:
            fleet.responders.open(name)
        fleet.engine.max_surge = new.max_surge
        for name in fleet.engine.graph.start_order:  # in which those that are replaced follow each other
            if (change := plan.changed.get(name)) is None:
                continue
            policy = policy_of(new.agents[name])
            if change.action == "rebind":
                fleet.engine.post(name, Rebind(policy))
            else:
                fleet.engine.post(name, Redefine(policy, respawn=change.action == "respawn"))
        for name in plan.added:
            fleet.engine.post(name, Start())
        fleet.changed()  # also where no agent changes its state: an icon, a namespace


def meanwhile(old: Deployment, new: Deployment) -> Graph:
    """The dependencies while some agents leave: new ones of those that stay, old ones of those that do not."""
    needs = {name: (new.agents.get(name) or agent).depends_on for name, agent in old.agents.items()}
    return Graph({name: [need for need in wanted if need in old.agents] for name, wanted in needs.items()})


def upcoming(agent: Agent) -> int:
    """The generation that serves once a replacement under way has succeeded."""
    return agent.last_generation if agent.is_replacing else agent.generation
