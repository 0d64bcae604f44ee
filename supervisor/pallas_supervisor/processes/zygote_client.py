"""The supervisor's end of the zygote: starts it, asks it to fork workers, makes it again when it dies.

Knows the command channel (`pallas_worker.process.zygote` is the other end, and never imported here).

A worker is forked rather than executed because importing fast-agent takes seconds and most of a worker's memory. The
zygote has one thread and no event loop, without which a fork would not be safe, and forks twice, so that the worker is
no child of its own: its exit status is the supervisor's to read, and the zygote may die without the workers.
Once no command has come for a moment, the zygote forks the next worker ahead, for a fork is what a restart waits for
longest. To the supervisor this makes no difference but two: the process may be older than the start of its worker,
which is why `LaunchInfo` has a time of its own, and there is one process more to end in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.spec import EXIT_FAILURE
from pallas_registry.environment.dotenv import worker_environment
from pallas_supervisor.lifecycle.exits import describe_exit
from pallas_supervisor.lifecycle.states import Exit
from pallas_supervisor.processes.keeper.client import KeeperError
from pallas_supervisor.processes.linux.helper_process import HelperProcess
from pallas_supervisor.processes.linux.process_tree import THIS_PROCESS, ProcessParent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.spec import Descriptors
    from pallas_registry.deployment.model import Deployment

START_TIMEOUT = 60.0
"""Seconds that a zygote may take to import fast-agent."""

ANSWER_TIMEOUT = 8.0
"""Seconds that a fork may take; it takes milliseconds."""

KILL_TIMEOUT = 5.0
"""Seconds that a killed zygote may take to disappear."""

TRIES = 3
"""Zygotes in a row that may die before they can fork; after that, another one is left to the next start."""

_log = get_logger("pallas.supervisor.zygote")


class ZygoteError(Exception):
    """The zygote could not fork a worker; the message says why."""


class _Process(HelperProcess):
    """One zygote process."""

    def __init__(self, environment: Mapping[str, str], parent: ProcessParent) -> None:
        super().__init__(parent, [sys.executable, "-P", "-m", "pallas_worker.process.zygote"], environment)
        self.channel.setblocking(False)
        self.ready = False
        self.gone = asyncio.Event()

    async def receive(self, timeout: float) -> dict[str, object]:
        async with asyncio.timeout(timeout):
            packet = await asyncio.get_running_loop().sock_recv(self.channel, 4096)
        if not packet:
            raise ConnectionResetError("the zygote has gone")
        answer: dict[str, object] = json.loads(packet)
        return answer

    def read_ready(self) -> None:
        """Notice that it had come up, where nothing has awaited that yet."""
        with contextlib.suppress(OSError):
            self.ready = self.ready or self.channel.recv(4096) != b""

    def kill(self) -> None:
        if not self.gone.is_set():
            super().kill()


class Zygote:
    """One zygote process at a time; one that dies is made again.

    Args:
        environment: the process's whole environment.
        parent: below which the process is started.
    """

    def __init__(self, environment: Mapping[str, str], parent: ProcessParent = THIS_PROCESS) -> None:
        self._environment = environment
        self._parent = parent
        self._process: _Process | None = None
        self._closed = False
        self._failures = 0
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """The process ID, None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process; returns at once, long before it is ready to fork. Needs no event loop."""
        try:
            self._process = _Process(self._environment, self._parent)
        except KeeperError:
            # With a new keeper; a zygote that was started under the old one ends at its channel's end.
            self._process = _Process(self._environment, self._parent)

    def watch(self) -> None:
        """Notice its death; for the running loop."""
        if self._process is not None:
            asyncio.get_running_loop().add_reader(self._process.pidfd, self._died, self._process)

    async def ready(self) -> None:
        """Return once it can fork, which takes seconds after its own start. May be cancelled at any time.

        Raises:
            ZygoteError: it does not come up.
        """
        async with self._turn:
            await self._ready_process()

    async def spawn(self, descriptors: Descriptors) -> int:
        """Fork a worker that inherits `descriptors`; its process ID. Must not be cancelled.

        Raises:
            ZygoteError: it could not be done, and no such worker will come.
            OSError: there is no zygote, and none can be started now.
        """
        async with self._turn:
            process = await self._ready_process()
            try:
                socket.send_fds(process.channel, [b"spawn"], list(descriptors))
                answer = await process.receive(ANSWER_TIMEOUT)
            except (OSError, ValueError) as error:
                raise await self._give_up(process, error) from error
        if "pid" not in answer:
            raise ZygoteError(str(answer.get("error")))
        return int(str(answer["pid"]))

    async def _ready_process(self) -> _Process:
        if self._process is None:
            self.start()
            self.watch()
        process = self._process
        assert process is not None
        if not process.ready:
            try:
                await process.receive(START_TIMEOUT)
            except (OSError, ValueError) as error:
                raise await self._give_up(process, error) from error
            process.ready = True
        return process

    @staticmethod
    async def _give_up(process: _Process, error: Exception) -> ZygoteError:
        """End a process that has failed: the next try must not meet the same one."""
        process.kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.gone.wait(), KILL_TIMEOUT)
        process.channel.close()
        return ZygoteError(f"the zygote does not answer ({type(error).__name__})")

    def kill(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Close the channel, at which the zygote exits by itself."""
        self._closed = True
        if self._process is not None:
            self._process.channel.close()

    async def end(self) -> None:
        """Close, and return once the process is gone; it holds nothing that it would have to bring in order."""
        process = self._process
        self.close()
        if process is not None:
            process.kill()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.gone.wait(), KILL_TIMEOUT)

    def _died(self, process: _Process) -> None:
        try:
            exit_ = self._parent.exit_of(process.pid, process.pidfd)
        except ChildProcessError:  # it has been reaped elsewhere
            exit_ = Exit(status=EXIT_FAILURE)
        if exit_ is None:
            return
        asyncio.get_running_loop().remove_reader(process.pidfd)
        with contextlib.suppress(OSError):  # no descriptor is left to look with: it is reaped later
            self._parent.reap([process.pid])
        os.close(process.pidfd)
        process.gone.set()
        self._process = None
        if not self._turn.locked():  # else a spawn is reading, and closes it once it has read the end
            process.read_ready()
            process.channel.close()
        if self._closed:
            return
        _log.warning(f"the zygote died ({describe_exit(exit_)}); running workers are not concerned")
        self._failures = 0 if process.ready else self._failures + 1
        if self._failures < TRIES:  # the next start should not have to wait
            try:
                self.start()
            except OSError as error:
                _log.warning(f"the zygote cannot be started now: {error}")
            self.watch()


def zygote_for(
    deployment: Deployment, environ: Mapping[str, str], parent: ProcessParent = THIS_PROCESS
) -> Zygote | None:
    """A zygote, started already, or None where fewer than two agents would come from it.

    For a single agent it would cost more memory than it saves.
    """
    forked = [agent for agent in deployment.agents.values() if agent.python is None]
    if len(forked) < 2:
        return None
    zygote = Zygote(worker_environment(environ, {}), parent)
    zygote.start()
    return zygote
