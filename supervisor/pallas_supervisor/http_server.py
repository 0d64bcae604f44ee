"""uvicorn inside a loop that somebody else owns: no signal handlers, no polling, a prompt end.

Knows uvicorn; nothing of what is served.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    import socket
    from collections.abc import Generator

    from starlette.types import ASGIApp

SHUTDOWN_TIMEOUT = 2
"""Whole seconds that requests in flight get at the end."""


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
            http="h11",
            loop="asyncio",
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name="http")

    async def close(self) -> None:
        """Stop accepting, let requests finish for a moment, and return."""
        self._server.stopping.set()
        await self._task
