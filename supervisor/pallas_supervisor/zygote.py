"""The supervisor's end of the zygote: starts it, asks it to fork workers, makes it again when it dies.

Knows the command channel (`pallas_worker.zygote` is the other end, and never imported here).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from pallas_registry.environment import worker_environment
from pallas_supervisor.children import exit_of, send
from pallas_supervisor.executing import execute
from pallas_supervisor.wording import describe_exit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_registry.deployment import Deployment
    from pallas_registry.protocol import Descriptors

START_TIMEOUT = 60.0
"""Seconds that a zygote may take to import fast-agent."""

ANSWER_TIMEOUT = 15.0
"""Seconds that a fork may take."""

_log = logging.getLogger("pallas.supervisor.zygote")


class ZygoteError(Exception):
    """The zygote could not fork a worker; the message says why."""


class Zygote:
    """One zygote process at a time; the next `spawn` replaces a dead one.

    Args:
        environment: the process's whole environment.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._channel: socket.socket | None = None
        self._pidfd: int | None = None
        self._ready = False
        self._turn = asyncio.Lock()
        self.pid: int | None = None

    def start(self) -> None:
        """Start the process; returns at once, long before it is ready to fork. Needs no event loop."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            command = [sys.executable, "-P", "-m", "pallas_worker.zygote", str(theirs.fileno())]
            self.pid = execute(command, self._environment, [theirs.fileno()], None)
        self._pidfd = os.pidfd_open(self.pid)
        self._channel = ours
        self._ready = False

    def watch(self) -> None:
        """Notice its death; for the running loop."""
        if self._pidfd is not None:
            asyncio.get_running_loop().add_reader(self._pidfd, self._died)

    async def spawn(self, descriptors: Descriptors) -> int:
        """Fork a worker that inherits `descriptors`; its process ID.

        Raises:
            ZygoteError: it could not be done, and no such worker will come.
        """
        async with self._turn:
            if self._channel is None:
                self.start()
                self.watch()
            channel = self._channel
            assert channel is not None
            try:
                if not self._ready:
                    await self._receive(channel, START_TIMEOUT)
                    self._ready = True
                socket.send_fds(channel, [b"spawn"], list(descriptors))
                answer = await self._receive(channel, ANSWER_TIMEOUT)
            except (OSError, TimeoutError) as error:
                self.kill()
                raise ZygoteError(f"the zygote does not answer ({type(error).__name__})") from error
        if "pid" not in answer:
            raise ZygoteError(str(answer.get("error")))
        return int(str(answer["pid"]))

    @staticmethod
    async def _receive(channel: socket.socket, timeout: float) -> dict[str, object]:
        async with asyncio.timeout(timeout):
            packet = await asyncio.get_running_loop().sock_recv(channel, 4096)
        if not packet:
            raise ConnectionResetError("the zygote has gone")
        answer: dict[str, object] = json.loads(packet)
        return answer

    def kill(self) -> None:
        """End the process, if there is one."""
        if self._pidfd is not None:
            send(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Close the channel, at which the zygote exits by itself."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _died(self) -> None:
        assert self._pidfd is not None
        exit_ = exit_of(self._pidfd)
        if exit_ is None:
            return
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        os.close(self._pidfd)
        self._pidfd = None
        self.pid = None
        expected, was_ready = self._channel is None, self._ready
        self.close()
        if expected:
            return
        _log.warning("the zygote died (%s); running workers are not concerned", describe_exit(exit_))
        if was_ready:  # the next start should not have to wait; one that never came up is left to that start
            self.start()
            self.watch()


def zygote_for(deployment: Deployment, environ: Mapping[str, str]) -> Zygote | None:
    """A zygote, started already, or None where fewer than two agents would come from it.

    For a single agent it would cost more memory than it saves.
    """
    forked = [agent for agent in deployment.agents.values() if agent.python is None]
    if len(forked) < 2:
        return None
    zygote = Zygote(worker_environment(environ, {}))
    zygote.start()
    return zygote
