"""The zygote: imports fast-agent once, then forks a worker for every command on its socket.

Knows libraries, never a user's module; one thread, no event loop, no socket but the command channel. A worker is
forked twice, so that it becomes the child of the supervisor (a subreaper), which alone reads its exit status.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import setproctitle

from pallas_registry.protocol import Descriptors
from pallas_registry.tracing_settings import tracing_settings

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
    "pallas_worker.run",
    "pallas_worker.serve",
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
    "pallas_registry.tracing",
)
"""The same where traces are made. Importing starts no thread; the worker opens the provider, which does."""


def main() -> None:
    """Serve spawn commands on the SEQPACKET socket whose descriptor is the only argument, until it closes.

    A command is one packet that carries the descriptors of `Descriptors`; the answer is one packet of JSON,
    `{"pid": int}` or `{"error": str}`. The first packet is the zygote's own: `{"ready": true}`.
    """
    channel = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    setproctitle.setproctitle("pallas-zygote")
    _preload()
    gc.disable()
    gc.collect()
    gc.freeze()
    channel.send(json.dumps({"ready": True}).encode())
    while True:
        command, descriptors, _, _ = socket.recv_fds(channel, 64, len(Descriptors._fields))
        if not command:
            return
        try:
            answer: dict[str, object] = {"pid": _spawn(channel, Descriptors(*descriptors))}
        except (OSError, RuntimeError, TypeError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        channel.send(json.dumps(answer).encode())


def _preload() -> None:
    traced = PRELOAD_TRACED if tracing_settings(os.environ).on else ()
    for name in (*PRELOAD, *traced):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _spawn(channel: socket.socket, descriptors: Descriptors) -> int:
    """Fork a worker and return its process ID once it is the supervisor's child."""
    if sum(1 for _ in Path("/proc/self/task").iterdir()) != 1:
        raise RuntimeError("the zygote has more than one thread, a fork would not be safe")
    read_end, write_end = os.pipe()
    intermediate = os.fork()
    if intermediate == 0:
        os.close(read_end)
        _intermediate(channel, descriptors, write_end)
    os.close(write_end)
    try:
        answer = os.read(read_end, 32)
    finally:
        os.close(read_end)
        # Once the intermediate has been reaped, its child has been handed to the subreaper.
        os.waitpid(intermediate, 0)
    if not answer:
        raise RuntimeError("the worker could not be forked; is a process or memory limit reached?")
    return int(answer)


def _intermediate(channel: socket.socket, descriptors: Descriptors, write_end: int) -> NoReturn:
    try:
        own_pid = os.getpid()
        worker = os.fork()
        if worker == 0:
            os.close(write_end)
            channel.close()
            _worker(descriptors, own_pid)
        os.write(write_end, str(worker).encode())
    finally:
        os._exit(0)


def _worker(descriptors: Descriptors, intermediate: int) -> NoReturn:
    try:
        os.setsid()
        for target in (1, 2):
            os.dup2(descriptors.output, target)
        os.close(descriptors.output)
        while os.getppid() == intermediate:  # a few microseconds, until the supervisor has become the parent
            os.sched_yield()
        from pallas_worker.run import run_worker

        run_worker(descriptors)
    finally:
        os._exit(70)


if __name__ == "__main__":
    main()
