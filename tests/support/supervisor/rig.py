"""Real parts on a real loop with real sockets, but without processes: those are the test's (`FakeProcesses`)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import yaml

from pallas_common.logs.levels import Levels
from pallas_registry.deployment.agents_file import read_deployment
from pallas_registry.deployment.model import ModelSettings
from pallas_registry.resources.assembly import assemble
from pallas_registry.resources.files import KeptResources
from pallas_registry.source import Configuration
from pallas_supervisor.agents.changes.apply import Applying
from pallas_supervisor.agents.changes.moving import Moving
from pallas_supervisor.agents.changes.reload import Reloading
from pallas_supervisor.agents.description.agent import Descriptions
from pallas_supervisor.agents.description.resources import ResourceDescriptions
from pallas_supervisor.agents.gateway.gateway import Gateway
from pallas_supervisor.agents.gateway.listening import listen
from pallas_supervisor.agents.manager import AgentManager
from pallas_supervisor.agents.upstreams.directory import UpstreamDirectory
from pallas_supervisor.agents.verbs import OperatorVerbs
from pallas_supervisor.http.catalogue_feed import CatalogueFeed
from pallas_supervisor.http.control.api import control_api
from pallas_supervisor.http.control.gateway import GatewayVerbs
from pallas_supervisor.http.control.guard import GatewayRoutes
from pallas_supervisor.http.control.resources import ResourceRoutes
from pallas_supervisor.http.page.data.feed import Feed
from pallas_supervisor.http.page.data.samples import SHOWN
from pallas_supervisor.http.public_api import public_api
from pallas_supervisor.lifecycle.events import Died, Ready, Reaped, Spawned
from pallas_supervisor.lifecycle.states import Exit, WorkerId
from pallas_supervisor.logs.router import LogRouter
from pallas_supervisor.reload.drift import Drift
from pallas_supervisor.reload.source import Source
from pallas_supervisor.sockets.activation import Inheritance
from pallas_supervisor.sockets.agent_sockets import AgentSockets
from pallas_supervisor.sockets.listeners import close_listeners
from pallas_supervisor.sockets.socket_store import SocketStore
from pallas_supervisor.sockets.systemd import Notifier
from pallas_supervisor.telemetry.store import MetricsStore
from support.ports import free_ports
from support.supervisor.fakes import FakeProcesses
from support.supervisor.processes import nothing_leaked

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
    from pathlib import Path

    from starlette.applications import Starlette
    from starlette.types import ASGIApp

    from pallas_common.protocol.reports import Report
    from pallas_registry.deployment.model import Deployment
    from pallas_supervisor.processes.launcher import Launcher


def write_deployment(directory: Path, agents: dict[str, dict[str, Any]], **fields: Any) -> Path:
    """An `agents.yaml`; `agents` gives each agent's port and whatever else is not usual."""
    path = directory / "agents.yaml"
    usual = {
        name: {"module": f"agents.{name}", "title": name.title(), "description": f"The agent {name}", **given}
        for name, given in agents.items()
    }
    path.write_text(yaml.safe_dump({"name": "demo", "agents": usual, **fields}, sort_keys=False))
    return path


@dataclass
class Rig:
    """The parts and the hands to move them."""

    manager: AgentManager
    gateway: Gateway
    operations: OperatorVerbs
    reloading: Reloading
    applying: Applying
    world: FakeProcesses
    directory: Path
    lines: list[bytes]

    def write(self, agents: dict[str, dict[str, Any]], **fields: Any) -> None:
        """Change `agents.yaml`."""
        write_deployment(self.directory, agents, **fields)

    def appear(self, *names: str) -> None:
        for name in names:
            process = self.world.newest(name)
            process.spawned = True
            self.manager.engine.post(name, Spawned(process.generation, 4000))

    def come_up(self, *names: str) -> None:
        self.appear(*names)
        for name in names:
            process = self.world.newest(name)
            process.serving = True
            self.manager.engine.post(name, Ready(process.generation))

    def end(self, name: str, exit_: Exit | None = None, *, old: bool = False) -> None:
        """End the newest process of an agent, or the oldest."""
        process = self.world.of(name)[-1 if old else 0]
        process.dead = True
        self.manager.engine.post(name, Died(process.generation, exit_ or Exit(status=0)))
        self.world.remove(process)
        self.manager.engine.post(name, Reaped(process.generation))

    def report(self, name: str, said: Report, *, generation: int | None = None) -> None:
        """Let a worker of an agent report something: that which counts, or another one."""
        known = self.manager.engine.agents[name].generation if generation is None else generation
        self.manager.reports_in.take(WorkerId(name, known), said)

    def catalogue(self) -> CatalogueFeed:
        """The catalogue."""
        return CatalogueFeed(self.manager.status, self.manager.drift, self.manager.observers)

    def public_api(self) -> ASGIApp:
        """What is served on the registry port."""
        manager = self.manager
        return public_api(manager.status, manager.metrics, self.catalogue(), self.feed(), manager.engine.now)

    def feed(self) -> Feed:
        """What page and `top` are made from."""
        manager = self.manager
        feed = Feed(
            manager.status,
            manager.engine.now,
            manager.metrics.workers.look,
            lambda: manager.store.collect(SHOWN),
        )
        manager.observers.transition.add(feed.follow)
        return feed

    def control_api(self) -> Starlette:
        """What is served on the control socket."""
        manager = self.manager
        return control_api(
            manager.status,
            manager.drift,
            manager.log_router,
            manager.events,
            self.operations,
            self.reloading,
            manager.engine.now,
            Descriptions(manager.engine, manager.drift, manager.status, manager.log_router, manager.exits),
            self.feed(),
            ResourceRoutes(
                self.applying,
                ResourceDescriptions(manager.drift, manager.status, manager.log_router.secrets),
                manager.drift,
                manager.log_router.secrets,
            ),
            GatewayRoutes(self.upstreams(), self.manager.keys.siblings, lambda: self.directory),
            GatewayVerbs(OperatorVerbs(self.gateway.engine), self.gateway.status),
        )

    def upstreams(self) -> UpstreamDirectory:
        """What the gateway is told."""
        manager = self.manager
        return UpstreamDirectory(
            manager.engine,
            manager.drift,
            manager.status.reports,
            manager.sockets,
            manager.keys,
            self.directory,
        )

    def states(self, names: Iterable[str] = ()) -> dict[str, str]:
        return {
            name: str(agent.state)
            for name, agent in self.manager.engine.agents.items()
            if not names or name in names
        }

    """The parts for these agents, none of which has been started; sockets of the ports `outliving` outlive them."""


class _Sockets(AgentSockets):
    outliving: Collection[int] = ()
    """Ports that outlive the supervisor."""

    def outlives(self, listener: socket.socket) -> bool:
        return listener.getsockname()[1] in self.outliving


@asynccontextmanager
async def rig(
    directory: Path, agents: dict[str, dict[str, Any]], outliving: Collection[int] = (), **fields: Any
) -> AsyncIterator[Rig]:
    """The parts for these agents, none of which has been started; sockets of the ports `outliving` outlive them."""
    deployment: Deployment = read_deployment(write_deployment(directory, agents, **fields))
    lines: list[bytes] = []
    levels = Levels(pallas="INFO", root="INFO")
    taken = Configuration(
        deployment=deployment,
        assembly=assemble(deployment, KeptResources()),
        state_directory=directory / "state",
        settings=ModelSettings(),
        levels=levels,
        dotenv={},
    )
    world = FakeProcesses()
    sockets = _Sockets(deployment.bind, directory, SocketStore(Notifier({}), Inheritance()))
    sockets.outliving = outliving
    listeners = sockets.open({name: agent.port for name, agent in deployment.agents.items()})
    manager = AgentManager(
        Drift(Source(path=deployment.path, directory=directory), taken),
        listeners=listeners,
        sockets=sockets,
        store=MetricsStore(directory / "metrics"),
        log_router=LogRouter(lines.append),
        zygote=None,
        directory=str(directory),
        launch=lambda _context, **_: cast("Launcher", world),
    )
    store = SocketStore(Notifier({}), Inheritance())
    door = None if deployment.gateway is None else listen(deployment, store.take)
    gateway = Gateway(manager, door, store, directory / "control.sock")
    moving = Moving(
        manager.engine, manager.drift, manager.responders, sockets, manager.observers, gateway=gateway
    )
    reloading = Reloading(manager.engine, manager.drift, moving, manager.log_router.secrets)
    applying = Applying(manager.drift, moving, manager.log_router.secrets)
    try:
        async with asyncio.timeout(60.0):
            operations = OperatorVerbs(manager.engine)
            yield Rig(manager, gateway, operations, reloading, applying, world, directory, lines)
    finally:
        manager.responders.close()
        manager.engine.close()
        gateway.responders.close()
        gateway.engine.close()
        close_listeners(gateway.responders.listeners.values())
        close_listeners(listeners.values())
        await asyncio.sleep(0)
    assert not world.broken


def on_rig(directory: Path, agents: dict[str, dict[str, Any]], do: Callable[[Rig], Awaitable[None]]) -> None:
    """Do something with the parts for these agents, after which nothing of them may be left."""

    async def run() -> None:
        await asyncio.sleep(0)  # after what the loop opens for itself
        with nothing_leaked():
            async with rig(directory, agents) as made:
                await do(made)

    asyncio.run(run())


def two_agents() -> dict[str, dict[str, Any]]:
    """`research`, which depends on `library`."""
    library, research = free_ports(2)
    return {"library": {"port": library}, "research": {"port": research, "depends_on": ["library"]}}
