"""What every worker does first, done ahead by the process that waits to become one.

Why: a first run writes to memory pages that are shared until then, and fills caches of libraries; done ahead, it takes
a quarter off the CPU time between the command and readiness (74 ms without, 52 ms with it). Only what leaves nothing
behind that a worker would see may be done here: the zygote's processes serve any agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import warnings
from typing import Any

from fast_agent.config import Settings

from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer
from pallas_common.protocol.agent_source import AgentSource
from pallas_common.protocol.spec import WorkerSpec
from pallas_worker.fastagent.application import check_names
from pallas_worker.http.mcp_app import WorkerApp
from pallas_worker.http.self_check import self_check
from pallas_worker.process.run import loop_factory

PORT = 1
"""Only for the Host header: nothing listens there."""


def warm_up() -> None:
    """Look for fast-agent's names, read settings, and answer a request of our own.

    What fails here fails for the worker as well, which reports it.
    """
    level = logging.root.manager.disable
    logging.disable()
    try:
        # Ignored, a warning is not remembered as given: the worker's own log shall have it.
        with warnings.catch_warnings(action="ignore"):
            with contextlib.suppress(Exception):
                check_names()
            with contextlib.suppress(Exception):
                Settings()
            with contextlib.suppress(Exception), asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(answered())
    finally:
        logging.disable(level)


async def answered() -> str | None:
    """Answer a request of our own, as a worker does before it says that it is ready; see `self_check`."""
    nothing: Any = None  # neither calls nor health are asked
    app = WorkerApp(_SPEC, nothing, nothing)
    asgi = app.asgi(_SPEC.allowed_hosts)
    with socket.socket() as listener:
        async with app.server.session_manager.run():
            return await self_check(HttpServer(asgi, listener, Connections("warm-up", 1)), PORT)


_SPEC = WorkerSpec(
    agent="warm-up",
    source=AgentSource("module", ""),
    title="",
    description="",
    version="",
    deployment="",
    port=PORT,
    generation=0,
    directory="",
    allowed_hosts=("localhost",),
    metrics_directory="",
    metrics_slot="",
    stop_timeout=0,
    log_level="",
    root_log_level="",
)
