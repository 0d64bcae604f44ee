"""Reload: read the configuration again and move only what it changed. What the control API and SIGHUP call.

Decides nothing: `plan` says what a change means, the engine moves the agents, and observers do the rest.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.problems import ConfigurationError
from pallas_registry.environment.dotenv import DOTENV
from pallas_supervisor.agents.errors import RefusedError
from pallas_supervisor.agents.worker_spec import graph_of, policies_of, policy_of
from pallas_supervisor.lifecycle.dependencies import Graph
from pallas_supervisor.lifecycle.events import Arm, Rebind, Redefine, Stop
from pallas_supervisor.lifecycle.states import RESTING, Desired, State
from pallas_supervisor.reload.plan import FIXED_VARIABLES, Plan, plan_reload
from pallas_supervisor.sockets.listeners import close_listeners

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from pallas_registry.deployment.model import Deployment
    from pallas_registry.source import Configuration
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.agents.observers import AgentObservers
    from pallas_supervisor.lifecycle.states import Agent
    from pallas_supervisor.reload.drift import Drift
    from pallas_supervisor.sockets.agent_sockets import AgentSockets
    from pallas_supervisor.sockets.unserved.switch import UnavailableResponders

_log = get_logger("pallas.supervisor.reloading")

UNTOUCHED = frozenset({State.STOPPED, State.IDLE, State.WAITING})
"""States without a process, from which the next start takes the newest configuration anyway."""


class Reloading:
    """Takes on changed configurations, one at a time.

    Args:
        sockets: the agents' listening sockets.
        agent_sockets: opens those of new agents.
        around: entered for each reload that may change something, and left when it is over.
    """

    def __init__(
        self,
        engine: Engine,
        drift: Drift,
        sockets: UnavailableResponders,
        agent_sockets: AgentSockets,
        observers: AgentObservers,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._engine = engine
        self._drift = drift
        self._sockets = sockets
        self._agent_sockets = agent_sockets
        self._observers = observers
        self._around = around
        self._turn = asyncio.Lock()
        self._asked = False
        self._answering: set[asyncio.Task[None]] = set()

    def ask(self) -> None:
        """Reload in the background, as SIGHUP wants; only the log tells how it went.

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
                pass  # has been logged already
            except Exception as error:  # noqa: BLE001 - a failed reload must not take the supervisor down
                _log.error(f"cannot reload: {error}")

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
        try:
            newest = await self._drift.read()
        except ConfigurationError as error:
            if not dry_run:
                for problem in error.problems:
                    _log.error(str(problem))
                _log.error("the configuration cannot be used; nothing was changed")
            raise
        before = self._drift.taken
        plan = plan_reload(
            before.deployment,
            newest.deployment,
            self._of_workers(self._drift.stale_files),
            self._of_workers(self._drift.changed_code),
        )
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
        for name in plan.removed:
            self._observers.agent_removed(name)
        self._observers.configuration_changed(before, newest)
        self._apply(plan, newest.deployment, opened)
        for warning in newest.warnings:
            _log.warning(str(warning))
        _log.info(
            f"reloaded: {len(plan.added)} added, {len(plan.removed)} removed, {len(plan.changed)} changed, "
            f"{len(plan.unchanged)} unchanged"
        )
        return plan

    def _of_workers(self, files: Callable[[str, int], tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The files of every agent that has to do something about it: not if its replacement is on its way."""
        return {
            name: files(name, upcoming(agent))
            for name, agent in self._engine.agents.items()
            if agent.state not in UNTOUCHED and agent.replace is None
        }

    def _refuse_fixed(self, plan: Plan, newest: Configuration) -> None:
        before, after = self._drift.taken.dotenv, newest.dotenv
        variables = [name for name in FIXED_VARIABLES if before.get(name) != after.get(name)]
        if fixed := [*plan.fixed, *(f"{name} ({DOTENV})" for name in variables)]:
            fields = " and ".join(fixed)
            raise RefusedError(
                f"{fields} changed, which needs a restart of the supervisor; nothing was changed"
            )

    def _refuse_undead(self, plan: Plan) -> None:
        if undead := [name for name in plan.added if name in self._engine.unkillable]:
            names = ", ".join(undead)
            raise RefusedError(
                f"{names} was removed before and a process of it cannot be killed; nothing was changed: reload again "
                "when it is gone, or use another name"
            )

    def _refuse_at_the_end(self) -> None:
        if self._engine.shutting_down:
            raise RefusedError("the supervisor is stopping; start it again for the new configuration")

    def _open(self, plan: Plan, new: Deployment) -> dict[str, socket.socket]:
        """The listening sockets of agents that are new or move; a port that another one gives up changes hands."""
        old = self._drift.deployment
        rebound = [name for name, change in plan.changed.items() if change.action == "rebind"]
        given_up = {
            port: name for name in (*plan.removed, *rebound) if (port := old.agents[name].port) is not None
        }
        wanted = {name: new.agents[name].port for name in (*plan.added, *rebound)}
        fresh = {name: port for name, port in wanted.items() if port is None or port not in given_up}
        opened = self._agent_sockets.open(fresh, patience=0.0)
        for name in fresh.keys() - opened.keys():
            _log.error(f"{name}: {self._agent_sockets.refused[name]}", agent=name)
        try:
            for name in wanted.keys() - fresh.keys():
                if (port := wanted[name]) is not None:
                    opened[name] = self._sockets.listeners[given_up[port]].dup()
        except OSError:
            close_listeners(opened.values())
            raise
        return opened

    async def _stop(self, plan: Plan, new: Deployment) -> None:
        """Stop the agents that leave, dependents first."""
        engine = self._engine
        if plan.removed:  # who does not depend on them any more is not concerned by their end
            policies = {name: agent.policy for name, agent in engine.agents.items()}
            engine.redefine(meanwhile(self._drift.deployment, new), policies)
        leaving = [name for name in engine.graph.stop_order if name in plan.removed]

        def wanted() -> list[str]:
            return [name for name in leaving if engine.agents[name].desired is Desired.UP]

        def at_rest() -> bool:
            return all(engine.agents[name].state in RESTING for name in leaving)

        while wanted() or not at_rest():  # somebody may start one meanwhile
            for name in wanted():
                engine.post(name, Stop())
            await engine.until(lambda: bool(wanted()) or at_rest())

    def _apply(self, plan: Plan, new: Deployment, opened: dict[str, socket.socket]) -> None:
        engine = self._engine
        engine.redefine(graph_of(new), policies_of(new), new.max_surge)
        self._sockets.replace(opened)
        for name in engine.graph.start_order:  # in which those that are replaced follow each other
            if (change := plan.changed.get(name)) is None:
                continue
            policy = policy_of(new.agents[name])
            if change.action == "rebind":
                engine.post(name, Rebind(policy))
            else:
                engine.post(name, Redefine(policy, respawn=change.action == "respawn"))
        for name in plan.added:
            engine.post(name, Arm())
        self._observers.changed()  # also where no agent changes its state: an icon, a namespace


def meanwhile(old: Deployment, new: Deployment) -> Graph:
    """The dependencies while some agents leave: new ones of those that stay, old ones of those that do not."""
    needs = {name: (new.agents.get(name) or agent).depends_on for name, agent in old.agents.items()}
    return Graph({name: [need for need in wanted if need in old.agents] for name, wanted in needs.items()})


def upcoming(agent: Agent) -> int:
    """The generation that serves once a replacement under way has succeeded."""
    return agent.last_generation if agent.is_replacing else agent.generation
