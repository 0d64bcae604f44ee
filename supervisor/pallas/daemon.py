"""The supervisor's life: take what it needs, start the agents, serve, stop in reverse order.

Knows the order of things, and signals and the service manager; `parts` makes what it moves.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

from pallas.parts import take_parts
from pallas_common import __version__
from pallas_common.logs.setup import get_logger
from pallas_common.problems import counted
from pallas_supervisor.logs.loop_errors import LoopErrors
from pallas_supervisor.processes.keeper.predecessor import forget
from pallas_supervisor.processes.linux.process_tree import become_subreaper
from pallas_supervisor.sockets.systemd import Notifier

if TYPE_CHECKING:
    from pallas.assignment import Assignment
    from pallas.parts import SupervisorParts
    from pallas_supervisor.agents.engine import Engine

DRAIN_TIMEOUT = 2.0
"""Seconds that requests in flight get at the end."""

SUPERVISOR = "supervisor"
"""The kind of events that are about this process; their name is the deployment's."""

EXTENSION = 30.0
"""Seconds more that the service manager is asked for while agents stop, again and again."""

_log = get_logger("pallas.supervisor")


async def supervise(assignment: Assignment) -> None:
    """Run a deployment until SIGTERM or SIGINT; a second SIGINT or SIGTERM ends it without grace.

    Raises:
        ConfigurationError: a path cannot be used.
        AlreadyRunningError: another supervisor runs this deployment.
        PortsTakenError: some port is taken; nothing was started.
        OSError: the log file or the runtime directory cannot be written.
    """
    async with contextlib.AsyncExitStack() as stack:
        await _Supervisor(assignment).run(stack)


class _Supervisor:
    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._name = assignment.configuration.deployment.name
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(LoopErrors())
        self._stopping = asyncio.Event()
        self._impatient = asyncio.Event()
        self._notifier = Notifier(os.environ)

    async def run(self, stack: contextlib.AsyncExitStack) -> None:
        become_subreaper()
        taken = await take_parts(self._assignment, self._notifier, stack)
        engine, lag = taken.manager.engine, taken.manager.metrics.lag
        for server in taken.servers:
            server.start()
        self._handle_signals(taken)
        _log.info(
            f"{self._name}: supervising "
            f"{counted(len(engine.agents), 'agent')}, control socket {taken.socket_path}"
        )
        taken.manager.events.add(SUPERVISOR, self._name, "started", version=__version__, pid=os.getpid())
        taken.gateway.arm()
        engine.arm(engine.agents)
        engine.start(taken.manager.sockets.refused)  # which fails, and says why: nobody could wake them
        self._notifier.send("READY=1", f"MAINPID={os.getpid()}")
        self._keep_alive(engine, taken.gateway.engine)
        lag.start()
        stack.callback(lag.stop)
        await self._stopping.wait()
        await self._shut_down(taken)

    async def _shut_down(self, taken: SupervisorParts) -> None:
        manager = taken.manager
        self._notifier.send("STOPPING=1")
        _log.info("stopping all agents")
        manager.events.add(SUPERVISOR, self._name, "stopping")
        manager.responders.retire()
        taken.gateway.responders.retire()
        extending = asyncio.create_task(self._extend_timeout(manager.engine), name="extend time-out")
        stopping = asyncio.create_task(_stop_all(taken))
        impatient = asyncio.create_task(self._impatient.wait())
        await asyncio.wait({stopping, impatient}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            _log.warning("told to stop again: killing what is left")
            taken.gateway.engine.kill_all()
            manager.engine.kill_all()
            await stopping
        impatient.cancel()
        manager.events.add(SUPERVISOR, self._name, "stopped")
        manager.events.close()
        await asyncio.gather(*(server.drain(DRAIN_TIMEOUT) for server in taken.servers))
        extending.cancel()
        taken.gateway.responders.close()
        manager.responders.close()
        await manager.launcher.close()
        await manager.intake.finish()
        if self._assignment.keeper is not None:
            self._assignment.keeper.end()
        manager.sockets.close(taken.gateway.responders.listeners)
        manager.sockets.close(manager.responders.listeners)
        forget(taken.socket_path.parent)
        _log.info("stopped")

    def _handle_signals(self, taken: SupervisorParts) -> None:
        def stop() -> None:
            (self._impatient if self._stopping.is_set() else self._stopping).set()

        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, stop)

        def reload() -> None:
            taken.reopen_log()
            taken.reloading.ask()

        self._loop.add_signal_handler(signal.SIGHUP, reload)
        self._loop.add_signal_handler(signal.SIGUSR1, taken.reopen_log)
        self._loop.add_signal_handler(signal.SIGCHLD, taken.manager.launcher.reap_adopted)

    def _keep_alive(self, *engines: Engine) -> None:
        """Feed the watchdog for as long as the engines work; a loop that only turns round and round is not alive."""
        interval = self._notifier.watchdog_interval
        if interval is not None:
            if all(engine.prove_alive() for engine in engines):
                self._notifier.send("WATCHDOG=1")
            self._loop.call_later(interval, self._keep_alive, *engines)

    async def _extend_timeout(self, engine: Engine) -> None:
        """Agents may take as long as they are allowed to, also where that is more than the manager expects."""
        while engine.prove_alive():
            self._notifier.extend_timeout(EXTENSION)
            await asyncio.sleep(EXTENSION / 3)


async def _stop_all(taken: SupervisorParts) -> None:
    """Stop the gateway, through which others come, and then the agents."""
    await taken.gateway.engine.shut_down()
    await taken.manager.engine.shut_down()
