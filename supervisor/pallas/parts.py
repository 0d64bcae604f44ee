"""What the daemon runs on: everything that it takes from the machine, and the parts made from that, wired together.

Knows how the parts are connected; the order of the supervisor's life is in `daemon`. Nothing is started here, so that
whatever can be refused is refused before an agent runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import shutil
import socket
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas.console import open_console, open_terminal, print_nothing_more
from pallas_common.http.connections import Connections
from pallas_common.http.descriptors import share_of_descriptors
from pallas_common.http.server import HttpServer
from pallas_common.logs.own_loggers import own_logger
from pallas_common.logs.setup import configure_logging, get_logger
from pallas_common.protocol.gateway import GATEWAY, GATEWAY_NAME
from pallas_common.secrets.values import KnownSecrets
from pallas_registry.configured_secrets import configured_secrets, secrets_of, values_of
from pallas_registry.environment.runtime_directory import control_socket, ensure_private
from pallas_registry.environment.variables import log_file, logs_to_stderr
from pallas_supervisor.agents.changes.apply import Applying
from pallas_supervisor.agents.changes.moving import Moving
from pallas_supervisor.agents.changes.reload import Reloading, log_disabled
from pallas_supervisor.agents.changes.writing import remove_leftovers
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
from pallas_supervisor.http.control.peer_credentials import guarded
from pallas_supervisor.http.control.resources import ResourceRoutes
from pallas_supervisor.http.page.data.feed import Feed
from pallas_supervisor.http.page.data.samples import SHOWN
from pallas_supervisor.http.public_api import public_api
from pallas_supervisor.logs.rotating_file import claim
from pallas_supervisor.logs.router import LogRouter, LogRouterHandler
from pallas_supervisor.logs.writer import LogWriter
from pallas_supervisor.processes.keeper.predecessor import VARIABLE as TRAIL_VARIABLE
from pallas_supervisor.processes.keeper.predecessor import Trail, end_predecessor
from pallas_supervisor.processes.linux.cgroups import Groups, delegated_groups
from pallas_supervisor.processes.linux.process_tree import THIS_PROCESS
from pallas_supervisor.reload.drift import Drift
from pallas_supervisor.reload.source import Source
from pallas_supervisor.sockets.agent_sockets import AgentSockets
from pallas_supervisor.sockets.instance_lock import keep_cleaners_off, lock_instance
from pallas_supervisor.sockets.socket_store import SocketStore
from pallas_supervisor.sockets.unix_sockets import BACKLOG
from pallas_supervisor.telemetry.start_traces import StartTraces, open_tracing
from pallas_supervisor.telemetry.store import MetricsStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pallas.assignment import Assignment
    from pallas_registry.deployment.model import Deployment
    from pallas_supervisor.http.control.peer_credentials import Peer, Standing
    from pallas_supervisor.processes.keeper.client import Keeper
    from pallas_supervisor.sockets.systemd import Notifier

REGISTRY = "registry"
"""Purpose of the public port, beside the agents' names."""

CONTROL_GRACE = 0.05
"""Seconds that a client of the control socket has at least to send its request, however many connect."""

_log = get_logger("pallas.supervisor")


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorParts:
    """What the daemon moves."""

    manager: AgentManager
    gateway: Gateway
    reloading: Reloading
    servers: list[HttpServer]
    socket_path: Path
    """Of the control socket; all that is only this supervisor's is in its directory."""
    reopen_log: Callable[[], None]
    """Have the log go on in the file that has its name now."""


async def take_parts(
    assignment: Assignment, notifier: Notifier, stack: contextlib.AsyncExitStack
) -> SupervisorParts:
    """Take all that the supervisor needs; `stack` gives it back.

    Raises:
        ConfigurationError: a path cannot be used.
        AlreadyRunningError: another supervisor runs this deployment.
        PortsTakenError: some port is taken.
        OSError: the log file or the runtime directory cannot be written.
    """
    since = asyncio.get_running_loop().time()
    deployment = assignment.configuration.deployment
    socket_path = control_socket(deployment.name, os.environ)
    directory = socket_path.parent
    ensure_private(directory)
    stack.callback(os.close, lock_instance(directory, deployment.name, deployment.path))
    stack.callback(os.close, keep_cleaners_off(directory))
    left_behind = end_predecessor(directory)
    if (state := assignment.configuration.state_directory) is not None:
        remove_leftovers(state)
    socket_store = SocketStore(notifier, assignment.inheritance)
    sockets = AgentSockets(deployment.agents_bind, directory, socket_store, {REGISTRY: deployment.bind})
    listeners = _listen(assignment, sockets, socket_store, stack)
    gateway_listener = _listen_for_gateway(deployment, sockets, socket_store, stack)
    log_router, writer = _open_log(assignment, stack)
    tracing = open_tracing(os.environ, deployment.name, log_router.secrets)
    if tracing is not None:
        stack.callback(tracing.close)
    traces = StartTraces(tracing)
    open_console(assignment)
    for warning in (*assignment.configuration.warnings, *left_behind):
        _log.warning(str(warning))
    for name, why in sockets.refused.items():
        _log.error(f"{name} cannot be reached: {why}", agent=name)
    log_disabled(assignment.configuration)
    socket_store.drop_unclaimed()
    await socket_store.open()
    socket_store.keep((*listeners.values(), *([] if gateway_listener is None else [gateway_listener])))
    public_listener = listeners.pop(REGISTRY, None)
    store = MetricsStore(directory / "metrics")
    for kept in (store.directory, store.parked):
        stack.callback(shutil.rmtree, kept, ignore_errors=True)
    manager = AgentManager(
        Drift(
            Source(
                path=deployment.path,
                directory=assignment.directory,
                only=assignment.only,
                resources=assignment.resources,
            ),
            assignment.configuration,
        ),
        listeners=listeners,
        sockets=sockets,
        store=store,
        log_router=log_router,
        zygote=assignment.zygote,
        directory=str(assignment.directory),
        traces=traces,
        groups=_groups(assignment, stack),
        parent=assignment.keeper or THIS_PROCESS,
    )
    open_terminal(assignment, manager, stack)
    if assignment.keeper is not None:
        _leave_trail(assignment.keeper, manager.launcher.lifeline, directory)

    @contextlib.contextmanager
    def announced() -> Iterator[None]:
        with notifier.reloading():
            try:
                yield
            finally:
                public = () if public_listener is None else (public_listener,)
                socket_store.keep((*public, *listeners.values(), *gateway.responders.listeners.values()))

    gateway = Gateway(manager, gateway_listener, socket_store, socket_path)
    moving = Moving(
        manager.engine, manager.drift, manager.responders, sockets, manager.observers, announced, gateway
    )
    reloading = Reloading(manager.engine, manager.drift, moving, log_router.secrets)
    applying = Applying(manager.drift, moving, log_router.secrets)
    manager.observers.changed.add(lambda: notifier.status(manager.status.summary()))
    feed = Feed(
        manager.status,
        manager.engine.now,
        manager.metrics.workers.look,
        lambda: manager.store.collect(SHOWN),
    )
    manager.observers.transition.add(feed.follow)
    servers = [_control_server(manager, gateway, reloading, applying, feed, socket_path, since, stack)]
    stack.callback(traces.close, manager.engine.agents)
    if public_listener is not None:
        servers.append(_public_server(manager, feed, public_listener))
    if assignment.background:
        print_nothing_more()
    return SupervisorParts(
        manager=manager,
        gateway=gateway,
        reloading=reloading,
        servers=servers,
        socket_path=socket_path,
        reopen_log=writer.reopen,
    )


# --- what clients and operators reach -------------------------------------------------------------------

# What these two and the responders do not take is the reserve for workers, logs and scrapes.


def _control_server(
    manager: AgentManager,
    gateway: Gateway,
    reloading: Reloading,
    applying: Applying,
    feed: Feed,
    path: Path,
    since: float,
    stack: contextlib.AsyncExitStack,
) -> HttpServer:
    engine = manager.engine
    launcher = manager.launcher

    def standing(peer: Peer) -> Standing:
        gateways = (worker.pid for id_, worker in launcher.workers.items() if id_.name == GATEWAY_NAME)
        if peer.pid in gateways:
            return "gateway"
        return "inside" if launcher.is_from_workers(peer.pid) else "outside"

    upstreams = UpstreamDirectory(
        engine,
        manager.drift,
        manager.status.reports,
        manager.sockets,
        manager.keys,
        manager.drift.source.directory,
    )
    api = control_api(
        manager.status,
        manager.drift,
        manager.log_router,
        manager.events,
        OperatorVerbs(engine),
        reloading,
        lambda: engine.now() - since,
        Descriptions(engine, manager.drift, manager.status, manager.log_router, manager.exits),
        feed,
        ResourceRoutes(
            applying,
            ResourceDescriptions(manager.drift, manager.status, manager.log_router.secrets),
            manager.drift,
            manager.log_router.secrets,
        ),
        GatewayRoutes(upstreams, manager.keys.siblings, lambda: manager.drift.taken.state_directory),
        GatewayVerbs(OperatorVerbs(gateway.engine), gateway.status),
    )
    listener = _control_listener(path)
    stack.callback(listener.close)
    stack.callback(path.unlink, missing_ok=True)
    # Who follows the log may stop reading for as long as a page of it takes; who asks is near, and asks at once.
    limit = share_of_descriptors(1 / 8, 256)
    connections = Connections("control socket", limit, grace=CONTROL_GRACE, stall_timeout=math.inf)
    return HttpServer(api, listener, connections, protocol=guarded(standing), dates=False)


def _public_server(manager: AgentManager, feed: Feed, listener: socket.socket) -> HttpServer:
    catalogue = CatalogueFeed(manager.status, manager.drift, manager.observers)
    api = public_api(manager.status, manager.metrics, catalogue, feed, manager.engine.now)
    connections = Connections("registry port", share_of_descriptors(1 / 4, 1024))
    return HttpServer(api, listener, connections, dates=False)


def _control_listener(path: Path) -> socket.socket:
    """Listen on the control socket; a stale one of a killed supervisor is replaced, since the lock is ours."""
    if path.exists() and stat.S_ISSOCK(path.lstat().st_mode):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o117)  # rw for owner and group from the very first moment
    try:
        listener.bind(str(path))
    finally:
        os.umask(mask)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


# --- what is taken --------------------------------------------------------------------------------------


def _listen(
    assignment: Assignment,
    sockets: AgentSockets,
    socket_store: SocketStore,
    stack: contextlib.AsyncExitStack,
) -> dict[str, socket.socket]:
    deployment = assignment.configuration.deployment
    ports = {name: agent.port for name, agent in deployment.agents.items()}
    if assignment.only is None:
        ports = {REGISTRY: deployment.registry_port, **ports}
    listeners = sockets.open(ports)
    stack.callback(sockets.close, dict(listeners))
    sockets.remove_leftovers(ports)
    return listeners


def _listen_for_gateway(
    deployment: Deployment, sockets: AgentSockets, socket_store: SocketStore, stack: contextlib.AsyncExitStack
) -> socket.socket | None:
    if deployment.gateway is None:
        return None
    listener = listen(deployment, socket_store.take)
    stack.callback(sockets.close, {GATEWAY: listener})
    return listener


def _open_log(assignment: Assignment, stack: contextlib.AsyncExitStack) -> tuple[LogRouter, LogWriter]:
    """Open the log file, and have all that this process logs from now on go there."""
    path, claimed = claim(log_file(os.environ), assignment.configuration.deployment.name)
    stack.callback(os.close, claimed)
    writer = LogWriter(path, stderr=logs_to_stderr(os.environ))
    stack.callback(writer.close)
    secrets = KnownSecrets(configured_secrets(assignment.directory, os.environ))
    secrets.add(values_of(assignment.configuration.resources))
    secrets.add(secrets_of(assignment.configuration.deployment))
    log_router = LogRouter(writer.put, secrets, lambda: writer.lost)
    handler = LogRouterHandler(log_router, asyncio.get_running_loop())
    configure_logging(handler, assignment.configuration.levels, {}, secrets)
    stack.callback(logging.getLogger().removeHandler, handler)
    stack.callback(own_logger().removeHandler, handler)
    return log_router, writer


def _groups(assignment: Assignment, stack: contextlib.AsyncExitStack) -> Groups | None:
    beside = (assignment.zygote, assignment.keeper)
    pids = [process.pid for process in beside if process is not None and process.pid is not None]
    groups = delegated_groups(os.environ, pids)
    if groups is not None:
        stack.callback(groups.close)
        groups.end_leftovers()
    return groups


def _leave_trail(keeper: Keeper, lifeline: int, directory: Path) -> None:
    """Write down by what the next supervisor recognises our processes, now and with each new keeper."""
    if (word := os.environ.get(TRAIL_VARIABLE)) is None:
        return

    def write() -> None:
        try:
            Trail.of_this_process(word, lifeline, keeper.pid).write(directory)
        except OSError as error:
            _log.warning(f"the next supervisor could not recognise what this one started: {error}")

    write()
    keeper.start_observers.append(write)
