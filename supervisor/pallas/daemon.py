"""The supervisor's life: take what it needs, start the manager, serve, stop in reverse order.

Knows the order of things; each thing is somebody else's. Nothing is started before all that can be refused is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import shutil
import signal
import socket
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pallas_common.http.connections import Connections
from pallas_common.http.descriptors import share_of_descriptors
from pallas_common.http.server import HttpServer
from pallas_common.logs.own_loggers import own_logger
from pallas_common.logs.setup import configure_logging, get_logger
from pallas_common.problems import counted
from pallas_common.secrets.values import KnownSecrets
from pallas_registry.configured_secrets import configured_secrets
from pallas_registry.environment.runtime_directory import SOCKET_NAME, control_socket, ensure_private
from pallas_registry.environment.variables import log_file, logs_to_stderr
from pallas_registry.source import alone
from pallas_supervisor.agents.manager import AgentManager
from pallas_supervisor.agents.reload import Reloading
from pallas_supervisor.agents.verbs import OperatorVerbs
from pallas_supervisor.http.catalogue_feed import CatalogueFeed
from pallas_supervisor.http.control_api import control_api
from pallas_supervisor.http.peer_credentials import PeerProtocol
from pallas_supervisor.http.public_api import public_api
from pallas_supervisor.logs.console import Console
from pallas_supervisor.logs.loop_errors import LoopErrors
from pallas_supervisor.logs.rotating_file import claim
from pallas_supervisor.logs.router import LogRouter, LogRouterHandler
from pallas_supervisor.logs.writer import LogWriter
from pallas_supervisor.processes.keeper.predecessor import VARIABLE as TRAIL_VARIABLE
from pallas_supervisor.processes.keeper.predecessor import Trail, end_predecessor, forget
from pallas_supervisor.processes.linux.cgroups import Groups, delegated_groups
from pallas_supervisor.processes.linux.process_tree import THIS_PROCESS, become_subreaper
from pallas_supervisor.reload.drift import Drift
from pallas_supervisor.reload.source import Source
from pallas_supervisor.sockets.activation import Inheritance
from pallas_supervisor.sockets.instance_lock import keep_cleaners_off, lock_instance
from pallas_supervisor.sockets.listeners import BACKLOG, close_listeners, open_listeners
from pallas_supervisor.sockets.socket_store import SocketStore
from pallas_supervisor.sockets.systemd import Notifier
from pallas_supervisor.telemetry.start_traces import StartTraces, open_tracing
from pallas_supervisor.telemetry.store import MetricsStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pallas_registry.deployment.model import Deployment
    from pallas_registry.source import Configuration
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.processes.keeper.client import Keeper
    from pallas_supervisor.processes.zygote_client import Zygote

REGISTRY = "registry"
"""Purpose of the public port, beside the agents' names."""

DRAIN_TIMEOUT = 2.0
"""Seconds that requests in flight get at the end."""

CONTROL_GRACE = 0.05
"""Seconds that whoever connects to the control socket has at least to ask, however many others connect."""

EXTENSION = 30.0
"""Seconds more that the service manager is asked for while agents stop, again and again."""

_log = get_logger("pallas.supervisor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What this supervisor is to run."""

    configuration: Configuration
    """What `.env` says in it is in the environment already."""
    zygote: Zygote | None
    keeper: Keeper | None = None
    """The parent of all that is started; None to be that ourselves."""
    directory: Path
    """Working directory of the agents."""
    only: str | None = None
    """The one agent that is run, without registry and dependencies; None for all."""
    inheritance: Inheritance = field(default_factory=Inheritance)
    """What the service manager handed down."""


async def supervise(assignment: Assignment) -> None:
    """Run a deployment until SIGTERM or SIGINT; a second SIGINT or SIGTERM ends it without grace.

    Raises:
        ConfigurationError: a path cannot be used.
        AlreadyRunningError: another supervisor runs this deployment.
        PortsTakenError: some port is taken; nothing was started.
        OSError: the log file or the runtime directory cannot be written.
    """
    async with contextlib.AsyncExitStack() as stack:
        supervisor = _Supervisor(assignment, stack)
        await supervisor.run()


class _Supervisor:
    def __init__(self, assignment: Assignment, stack: contextlib.AsyncExitStack) -> None:
        self._assignment = assignment
        self._stack = stack
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(LoopErrors())
        self._stopping = asyncio.Event()
        self._impatient = asyncio.Event()
        self._notifier = Notifier(os.environ)
        self._store = SocketStore(self._notifier, assignment.inheritance)

    async def run(self) -> None:
        deployment = self._assignment.configuration.deployment
        levels = self._assignment.configuration.levels
        since = self._loop.time()
        become_subreaper()
        socket_path = control_socket(deployment.name, os.environ)
        ensure_private(socket_path.parent)
        lock = lock_instance(socket_path.parent, deployment.name)
        self._stack.callback(os.close, lock)
        self._stack.callback(os.close, keep_cleaners_off(socket_path.parent))
        left_behind = end_predecessor(socket_path.parent)
        listeners = self._listen(deployment)
        log_router = self._open_log(deployment.name)
        handler = LogRouterHandler(log_router, self._loop)
        configure_logging(handler, levels, {}, log_router.secrets)
        self._stack.callback(logging.getLogger().removeHandler, handler)
        self._stack.callback(own_logger().removeHandler, handler)
        tracing = open_tracing(os.environ, deployment.name, log_router.secrets)
        if tracing is not None:
            self._stack.callback(tracing.close)
        traces = StartTraces(tracing)
        if not logs_to_stderr(os.environ):
            own_logger().addHandler(Console(deployment.name))
        for warning in self._assignment.configuration.warnings:
            _log.warning(str(warning))
        for line in left_behind:
            _log.warning(line)
        self._store.drop_unclaimed()
        await self._store.open()
        self._store.keep(listeners.values())
        registry_listener = listeners.pop(REGISTRY, None)
        metrics = socket_path.parent / "metrics"
        self._stack.callback(shutil.rmtree, metrics, ignore_errors=True)
        manager = AgentManager(
            self._drift(),
            listeners=listeners,
            store=MetricsStore(metrics),
            log_router=log_router,
            zygote=self._assignment.zygote,
            directory=str(self._assignment.directory),
            outlives=self._store.holds,
            traces=traces,
            groups=self._groups(),
            parent=self._assignment.keeper or THIS_PROCESS,
        )
        self._leave_trail(manager.launcher.lifeline, socket_path.parent)
        public = () if registry_listener is None else (registry_listener,)
        reloading = Reloading(
            manager.engine,
            manager.drift,
            manager.responders,
            manager.parts,
            lambda: self._reload_announced(listeners, public),
        )
        await self._serve(manager, reloading, socket_path, registry_listener, since)

    async def _serve(
        self,
        manager: AgentManager,
        reloading: Reloading,
        socket_path: Path,
        registry_listener: socket.socket | None,
        since: float,
    ) -> None:
        engine, status = manager.engine, manager.status
        control = control_api(
            status,
            manager.drift,
            manager.log_router,
            OperatorVerbs(engine),
            reloading,
            lambda: engine.now() - since,
        )
        control_listener = _control_listener(socket_path)
        self._stack.callback(control_listener.close)
        self._stack.callback(socket_path.unlink, missing_ok=True)
        # What these two and the stand-ins do not take is the reserve for workers, logs and scrapes.
        # Who follows the log may stop reading for as long as a page of it takes; who asks is near, and asks at once.
        limit = share_of_descriptors(1 / 8, 256)
        connections = Connections("control socket", limit, grace=CONTROL_GRACE, stall_timeout=math.inf)
        servers = [HttpServer(control, control_listener, connections, protocol=PeerProtocol, dates=False)]
        self._stack.callback(manager.traces.close, engine.agents)
        catalogue = CatalogueFeed(status, manager.drift, manager.parts)
        if registry_listener is not None:
            connections = Connections("registry port", share_of_descriptors(1 / 4, 1024))
            public = public_api(engine, status, manager.facts, manager.metrics, manager.store, catalogue)
            servers.append(HttpServer(public, registry_listener, connections, dates=False))
        for server in servers:
            server.start()
        self._handle_signals(manager, reloading)
        manager.parts.changed.add(lambda: self._notifier.status(status.summary()))
        _log.info(
            f"{status.deployment.name}: supervising {counted(len(engine.agents), 'agent')}, "
            f"control socket {socket_path}"
        )
        engine.start(engine.agents)
        self._notifier.send("READY=1", f"MAINPID={os.getpid()}")
        self._keep_alive(engine)
        manager.metrics.lag.start()
        self._stack.callback(manager.metrics.lag.stop)
        await self._stopping.wait()
        await self._shut_down(manager, servers)

    async def _shut_down(self, manager: AgentManager, servers: list[HttpServer]) -> None:
        self._notifier.send("STOPPING=1")
        _log.info("stopping all agents")
        manager.responders.retire()
        extending = asyncio.create_task(self._extend_timeout(manager.engine), name="extend time-out")
        stopping = asyncio.create_task(manager.engine.shut_down())
        impatient = asyncio.create_task(self._impatient.wait())
        await asyncio.wait({stopping, impatient}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            _log.warning("told to stop again: killing what is left")
            manager.kill_all()
            await stopping
        impatient.cancel()
        await asyncio.gather(*(server.drain(DRAIN_TIMEOUT) for server in servers))
        extending.cancel()
        manager.responders.close()
        await manager.launcher.close()
        await manager.intake.finish()
        if self._assignment.keeper is not None:
            self._assignment.keeper.end()
        close_listeners(manager.responders.listeners.values())
        forget(control_socket(manager.drift.deployment.name, os.environ).parent)
        _log.info("stopped")

    # --- what is taken ------------------------------------------------------------------------------------

    def _groups(self) -> Groups | None:
        beside = (self._assignment.zygote, self._assignment.keeper)
        pids = [process.pid for process in beside if process is not None and process.pid is not None]
        groups = delegated_groups(os.environ, pids)
        if groups is not None:
            self._stack.callback(groups.close)
            groups.end_leftovers()
        return groups

    def _leave_trail(self, lifeline: int, directory: Path) -> None:
        """Write down by what the next supervisor recognises our processes, now and with each new keeper."""
        keeper, word = self._assignment.keeper, os.environ.get(TRAIL_VARIABLE)
        if keeper is None or word is None:
            return

        def write() -> None:
            try:
                Trail.of_this_process(word, lifeline, keeper.pid).write(directory)
            except OSError as error:
                _log.warning(f"the next supervisor could not recognise what this one started: {error}")

        write()
        keeper.start_observers.append(write)

    def _listen(self, deployment: Deployment) -> dict[str, socket.socket]:
        ports = {name: agent.port for name, agent in deployment.agents.items()}
        if self._assignment.only is None:
            ports = {REGISTRY: deployment.registry_port, **ports}
        listeners = open_listeners(deployment.bind, ports, inherited=self._store.take)
        self._stack.callback(close_listeners, list(listeners.values()))
        return listeners

    def _drift(self) -> Drift:
        given = self._assignment
        path = given.configuration.deployment.path
        return Drift(Source(path=path, directory=given.directory, only=given.only), given.configuration)

    def _open_log(self, deployment: str) -> LogRouter:
        path, claimed = claim(log_file(os.environ), deployment)
        self._stack.callback(os.close, claimed)
        writer = LogWriter(path, stderr=logs_to_stderr(os.environ))
        self._stack.callback(writer.close)
        secrets = KnownSecrets(configured_secrets(self._assignment.directory, os.environ))
        return LogRouter(writer.put, secrets, lambda: writer.lost)

    # --- signals and time ---------------------------------------------------------------------------------

    def _handle_signals(self, manager: AgentManager, reloading: Reloading) -> None:
        def stop() -> None:
            (self._impatient if self._stopping.is_set() else self._stopping).set()

        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, stop)
        self._loop.add_signal_handler(signal.SIGHUP, reloading.ask)
        self._loop.add_signal_handler(signal.SIGCHLD, manager.launcher.reap_adopted)

    @contextlib.contextmanager
    def _reload_announced(
        self, listeners: dict[str, socket.socket], public: tuple[socket.socket, ...]
    ) -> Iterator[None]:
        with self._notifier.reloading():
            try:
                yield
            finally:
                self._store.keep((*public, *listeners.values()))

    def _keep_alive(self, engine: Engine) -> None:
        """Feed the watchdog for as long as the engine works; a loop that only turns round and round is not alive."""
        interval = self._notifier.watchdog_interval
        if interval is not None:
            if engine.prove_alive():
                self._notifier.send("WATCHDOG=1")
            self._loop.call_later(interval, self._keep_alive, engine)

    async def _extend_timeout(self, engine: Engine) -> None:
        """Agents may take as long as they are allowed to, also where that is more than the manager expects."""
        while engine.prove_alive():
            self._notifier.extend_timeout(EXTENSION)
            await asyncio.sleep(EXTENSION / 3)


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


def single(assignment: Assignment, name: str) -> Assignment:
    """The same deployment with one agent alone, without registry and dependencies."""
    given = assignment.configuration
    configuration = replace(given, deployment=alone(given.deployment, name))
    return replace(assignment, configuration=configuration, only=name, zygote=None)


__all__ = ["SOCKET_NAME", "Assignment", "single", "supervise"]
