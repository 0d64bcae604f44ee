"""uvicorn inside a loop that somebody else owns: no signal handlers, no polling, a prompt end.

Knows uvicorn; nothing of what is served.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import uvicorn

from pallas_supervisor.listeners import BACKLOG
from pallas_supervisor.peers import PeerProtocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Generator

    from starlette.types import ASGIApp

SHUTDOWN_TIMEOUT = 2
"""Whole seconds that requests in flight get at the end."""

LINGER = 0.5
"""Seconds in which connections that have just been opened may still send their request at the end."""

HAND_OVER = 4
"""Turns of the loop in which a connection that has been accepted comes to its protocol: asyncio takes three."""

LINGER_INTERVAL = 0.01
"""Seconds between two looks whether connections are left."""


class _Server(uvicorn.Server):
    """Waits for an event where uvicorn would look ten times a second whether it should exit."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the supervisor."""
        yield

    async def main_loop(self) -> None:
        """Serve until told to stop."""
        await self.stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting at once, and answer what has been accepted before closing anything."""
        loop = asyncio.get_running_loop()
        for server in self.servers:
            for listener in server.sockets:
                loop.remove_reader(listener.fileno())
        # asyncio hands what it has accepted to the server in a task of its own; a closed server would reset it.
        for _ in range(HAND_OVER):
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        self.server_state.default_headers.append((b"connection", b"close"))
        for _ in range(round(LINGER / LINGER_INTERVAL)):
            if not self.server_state.connections:
                break
            await asyncio.sleep(LINGER_INTERVAL)
        await super().shutdown(sockets)


class HttpServer:
    """Serves an application on a socket that is listening already."""

    def __init__(self, application: ASGIApp, listener: socket.socket) -> None:
        config = uvicorn.Config(
            application,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            http=PeerProtocol,
            loop="asyncio",
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name="http")

    async def close(self) -> None:
        """Stop accepting, let requests finish for a moment, and return."""
        self._server.stopping.set()
        await self._task
