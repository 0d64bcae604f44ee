"""What every worker does first, done ahead: by the zygote, once, and by the process that waits to become a worker.

Why: a first run compiles patterns, fills caches of libraries, and lets the interpreter specialise their code. Done by
the zygote, all workers begin with that (of 55 ms of CPU time between fork and readiness, 41 are left). The process
that is forked ahead does it once more, because it writes to memory pages that are shared until then. Only what leaves
nothing behind that a worker would see may be done here: the zygote's processes serve any agent. So it is done in an
empty folder and without an environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fast_agent import FastAgent, config

from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer
from pallas_common.logs.setup import THIRD_PARTY, set_level
from pallas_common.protocol.agent.source import AgentSource
from pallas_common.protocol.spec import WorkerSpec
from pallas_worker.agent.models.capabilities import published_capabilities
from pallas_worker.agent.runtime import open_runtime
from pallas_worker.fastagent.application import check_names, forget_settings
from pallas_worker.fastagent.implicit_sources import disable_implicit_sources
from pallas_worker.fastagent.instructions.dates import keep_dates
from pallas_worker.fastagent.instructions.files import note_files
from pallas_worker.fastagent.shortcuts import take_shortcuts_at_start
from pallas_worker.http.mcp_app import WorkerApp
from pallas_worker.http.self_check import self_check
from pallas_worker.process.preparation import qualified
from pallas_worker.telemetry.metrics import make_series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PORT = 1
"""Only for the Host header: nothing listens there."""

NAME = "warm-up"


def warm_up(loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    """Read the deployment's settings, serve an agent without a model, and answer a request of our own.

    What fails here fails for the worker as well, which reports it.
    """
    level = logging.root.manager.disable
    logging.disable()
    try:
        # Ignored, a warning is not remembered as given: the worker's own log shall have it.
        with warnings.catch_warnings(action="ignore"):
            for step in (
                check_names,
                disable_implicit_sources,
                keep_dates,
                note_files,
                take_shortcuts_at_start,
                _read_settings,
            ):
                with contextlib.suppress(Exception):
                    step()
            for name in THIRD_PARTY:
                set_level(logging.getLogger(name), logging.WARNING)
            make_series()
            with (
                contextlib.suppress(Exception),
                nowhere(),
                asyncio.Runner(loop_factory=loop_factory) as runner,
            ):
                runner.run(_served())
    finally:
        logging.disable(level)


def _read_settings() -> None:
    """Have the YAML of the working directory's configuration parsed: a worker that reads the same text need not."""
    discovered = config.load_implicit_settings(start_path=Path.cwd())[1]
    config.load_yaml_mapping(discovered.secrets_path)


@contextlib.contextmanager
def nowhere() -> Iterator[None]:
    """In a folder in which nothing is, without an environment; both are as before at the end."""
    directory, environment, arguments = Path.cwd(), dict(os.environ), sys.argv
    with tempfile.TemporaryDirectory(prefix="pallas-") as empty:
        try:
            os.chdir(empty)
            os.environ.clear()
            os.environ["HOME"] = empty
            sys.argv = [NAME]
            yield
        finally:
            sys.argv = arguments
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(directory)
            forget_settings()


async def _served() -> None:
    fast = FastAgent(NAME, parse_cli_args=False)

    @fast.agent(name=NAME, model="passthrough", instruction="Repeat.")
    async def agent() -> None: ...

    async with open_runtime(fast, NAME) as runtime:
        async with runtime.instance(None, lambda *_: None) as instance:
            list(instance.missing_keys())
            tools = await instance.tool_names()
        published_capabilities(runtime.model, None, None)
        runtime.parts(tools, qualified)
    await answered()


async def answered() -> str | None:
    """Answer a request of our own, as a worker does before it says that it is ready; see `self_check`."""
    nothing: Any = None  # neither calls nor health are asked
    app = WorkerApp(SPEC, nothing, nothing)
    asgi = app.asgi(SPEC.allowed_hosts)
    with socket.socket() as listener:
        async with app.server.session_manager.run():
            return await self_check(HttpServer(asgi, listener, Connections(NAME, 1)), PORT)


SPEC = WorkerSpec(
    agent=NAME,
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
