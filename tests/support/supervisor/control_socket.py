"""The control API of a rig on a real unix socket, as the gateway meets it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.types import ASGIApp


class _Server(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        """None: the test's process has its own."""


@asynccontextmanager
async def on_socket(app: ASGIApp, socket: Path) -> AsyncIterator[None]:
    """The application served on that socket; at the end all connections are cut off."""
    server = _Server(
        uvicorn.Config(app, uds=str(socket), lifespan="off", log_config=None, timeout_graceful_shutdown=0)
    )
    started = asyncio.Event()
    startup = server.startup

    async def told_startup(*args: object, **more: object) -> None:
        await startup(*args, **more)  # type: ignore[arg-type]  # as it was called
        started.set()

    server.startup = told_startup  # type: ignore[method-assign]  # to know when it listens
    task = asyncio.create_task(server._serve())  # `serve` would take the signals
    try:
        await started.wait()
        yield
    finally:
        server.should_exit = server.force_exit = True
        await task
        await asyncio.to_thread(socket.unlink, missing_ok=True)
