"""The zygote: imports fast-agent once, then forks a worker for every command on its socket.

Knows libraries, never a user's module; one thread, no event loop, no socket but the command channel and one to the
worker that is forked ahead (see `prefork`).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import platform
import select
import signal
import socket
import sys
from typing import TYPE_CHECKING

import setproctitle

from pallas_common.protocol.spec import Descriptors
from pallas_common.tracing.settings import tracing_settings
from pallas_worker.link.lifeline import wake_on_parent_death
from pallas_worker.process.double_fork import fork_adopted
from pallas_worker.process.prefork import PreforkedWorker, become_worker
from pallas_worker.process.user_module.loaded_code import pass_over_libraries
from pallas_worker.process.warm_up import warm_up

if TYPE_CHECKING:
    from typing import NoReturn

PRELOAD = (
    "anthropic",
    "anyio._backends._asyncio",
    "asyncio",
    "fast_agent",
    "fast_agent.core.direct_factory",
    "fast_agent.core.environment_lifecycle",
    "fast_agent.core.harness",
    "fast_agent.core.managed_runtime",
    "fast_agent.history.compaction",
    "fast_agent.hooks.compaction",
    "fast_agent.llm.internal.passthrough",
    "fast_agent.llm.model_info",
    "fast_agent.mcp.mcp_aggregator",
    "fast_agent.mcp.mcp_connection_manager",
    "fast_agent.plugins.post_user_turn",
    "fast_agent.tools.attach_media",
    "fast_agent.tools.composite_filesystem_runtime",
    "fast_agent.tools.environment_filesystem_runtime",
    "fast_agent.tools.environment_patch",
    "fast_agent.tools.local_filesystem_runtime",
    "httpcore",
    "httpx",
    "mcp.client.streamable_http",
    "mcp.server.lowlevel",
    "mcp.server.streamable_http_manager",
    "openai",
    "pallas_worker.process.run",
    "pallas_worker.process.serve",
    "PIL.Image",
    "prometheus_client",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.h11_impl",
    "uvloop",
)
"""What every worker needs and what is slow to import; a name that has moved costs time, not function."""

PRELOAD_TRACED = (
    "opentelemetry.instrumentation.anthropic",
    "opentelemetry.instrumentation.openai",
    "pallas_common.tracing.provider",
)
"""The same where traces are made. Importing starts no thread; the worker opens the provider, which does."""


QUIET = 250
"""Milliseconds without a command after which the next worker is forked ahead; while many are started, none is."""


def main() -> None:
    """Serve spawn commands on the SEQPACKET socket whose descriptor is the only argument, until it closes.

    A command is one packet that carries the descriptors of `Descriptors`; the answer is one packet of JSON,
    `{"pid": int}` or `{"error": str}`. The first packet is the zygote's own: `{"ready": true}`.
    """
    channel = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    setproctitle.setproctitle("pallas-zygote")
    wake_on_parent_death()  # stopped, it could not see its channel's end
    preload()
    pass_over_libraries()
    warm_up()  # with asyncio's own loop: libuv keeps a pipe for all of a process's loops
    gc.disable()
    gc.collect()
    gc.freeze()
    channel.send(json.dumps({"ready": True}).encode())
    spare = None  # the keeper, which would adopt one, may not be there before the first command
    commands = (
        select.poll()
    )  # of any number: the supervisor may have more descriptors than select(2) can look at
    commands.register(channel, select.POLLIN)
    while True:
        command, descriptors, _, _ = socket.recv_fds(channel, 64, len(Descriptors._fields))
        if not command:
            return
        try:
            answer: dict[str, object] = {"pid": _spawn(channel, Descriptors(*descriptors), spare)}
        except (OSError, RuntimeError, TypeError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        channel.send(json.dumps(answer).encode())
        spare = None if commands.poll(QUIET) else _fork_ahead(channel)


def preload() -> None:
    traced = PRELOAD_TRACED if tracing_settings(os.environ).on else ()
    for name in (*PRELOAD, *traced):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    platform.platform()  # goes into every agent's prompt context, and asks a program that it starts


def _fork_ahead(channel: socket.socket) -> PreforkedWorker | None:
    try:
        return PreforkedWorker(channel.close)
    except (OSError, RuntimeError, MemoryError):  # the next spawn command reports it
        return None


def _spawn(channel: socket.socket, descriptors: Descriptors, spare: PreforkedWorker | None) -> int:
    """The process ID of a worker that is the supervisor's child, forked now or ahead."""
    if spare is not None and spare.become(descriptors):
        return spare.pid

    def work() -> NoReturn:
        channel.close()
        become_worker(descriptors)

    return fork_adopted(work)


if __name__ == "__main__":
    main()
