"""From one configuration to another while the agents run: only what changed moves. For reloads and applied resources.

Decides nothing: `plan` says what a change means, the engine moves the agents, and observers do the rest.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_supervisor.agents.errors import RefusedError
from pallas_supervisor.agents.worker_spec import graph_of, policies_of, policy_of
from pallas_supervisor.lifecycle.dependencies import Graph
from pallas_supervisor.lifecycle.events import Arm, Rebind, Redefine, Stop
from pallas_supervisor.lifecycle.states import RESTING, Desired
from pallas_supervisor.sockets.listeners import close_listeners

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from pallas_registry.deployment.model import Deployment
    from pallas_registry.source import Configuration
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.agents.gateway.gateway import Gateway
    from pallas_supervisor.agents.observers import AgentObservers
    from pallas_supervisor.reload.drift import Drift
    from pallas_supervisor.reload.plan import Plan
    from pallas_supervisor.sockets.agent_sockets import AgentSockets
    from pallas_supervisor.sockets.unserved.switch import UnavailableResponders

AT_ONCE = 50
"""New agents that are told to be there before anything else in the supervisor has its turn."""

_log = get_logger("pallas.supervisor.reloading")


class Moving:
    """Moves the agents to changed configurations, one at a time.

    Args:
        sockets: the agents' listening sockets.
        agent_sockets: opens those of new agents.
        around: entered for each change, and left when it is over.
        gateway: moves with the agents.
    """

    def __init__(
        self,
        engine: Engine,
        drift: Drift,
        sockets: UnavailableResponders,
        agent_sockets: AgentSockets,
        observers: AgentObservers,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
        gateway: Gateway | None = None,
    ) -> None:
        self._engine = engine
        self._drift = drift
        self._sockets = sockets
        self._agent_sockets = agent_sockets
        self._observers = observers
        self.around = around
        self._gateway = gateway
        self.turn = asyncio.Lock()
        """Held by whoever changes something, from the moment on at which it looks at what there is."""

    def refuse_undead(self, plan: Plan) -> None:
        """Refuse new agents of which a process is left from before.

        Raises:
            RefusedError: there are some.
        """
        if undead := [name for name in plan.added if name in self._engine.unkillable]:
            names = ", ".join(undead)
            raise RefusedError(
                f"{names} was removed before and a process of it cannot be killed; nothing was changed: try again "
                "when it is gone, or use another name"
            )

    async def move(
        self, plan: Plan, newest: Configuration, keep: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Go by another configuration from now on; on any error nothing has changed.

        Args:
            plan: what it means for each agent.
            keep: writes down what there will be, when all else is sure. After that there is no way back: where the
                supervisor is stopped meanwhile, the next one takes over what was written.

        Raises:
            RefusedError: the supervisor is stopping.
            PortsTakenError: a new port is taken.
        """
        self._refuse_at_the_end()
        before = self._drift.taken
        with ExitStack() as opened_for_nothing:
            opened = self._open(plan, newest.deployment)
            opened_for_nothing.callback(close_listeners, opened.values())
            door = None if self._gateway is None else self._gateway.open_for(newest.deployment)
            if door is not None:
                opened_for_nothing.callback(door.close)
            if keep is not None:
                await keep()
            await self._stop(plan, newest.deployment)
            if self._gateway is not None:
                await self._gateway.leave(newest.deployment)
            if keep is None:
                self._refuse_at_the_end()  # meanwhile; nothing may be started any more
            elif self._engine.shutting_down:
                return
            opened_for_nothing.pop_all()
        for name in plan.removed:
            self._observers.agent_removed(name)
        self._observers.configuration_changed(before, newest)
        if self._gateway is not None:
            self._gateway.move(before.deployment.gateway, door)
        self._observers.resources_changed(before, newest, "reload" if keep is None else "request")
        await self._apply(plan, newest.deployment, opened)

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

    async def _apply(self, plan: Plan, new: Deployment, opened: dict[str, socket.socket]) -> None:
        engine = self._engine
        engine.redefine(graph_of(new), policies_of(new), new.max_surge)
        for name, changed in plan.changed.items():
            if changed.action == "rebind" and name not in opened:
                self._sockets.agent_removed(name)  # nobody is to be served at its old place
        self._sockets.replace(opened)
        for name in engine.graph.start_order:  # in which those that are replaced follow each other
            if (change := plan.changed.get(name)) is None:
                continue
            policy = policy_of(new.agents[name])
            if change.action == "rebind":
                engine.post(name, Rebind(policy))
            else:
                engine.post(name, Redefine(policy, respawn=change.action == "respawn"))
        for count, name in enumerate(plan.added, 1):
            engine.post(name, Arm())
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)
                if engine.shutting_down:
                    return
        engine.start(
            name for name in plan.added if name in self._agent_sockets.refused
        )  # fails, and says why
        self._observers.changed()  # also where no agent changes its state: an icon, a namespace


def meanwhile(old: Deployment, new: Deployment) -> Graph:
    """The dependencies while some agents leave: new ones of those that stay, old ones of those that do not."""
    needs = {name: (new.agents.get(name) or agent).depends_on for name, agent in old.agents.items()}
    return Graph({name: [need for need in wanted if need in old.agents] for name, wanted in needs.items()})
