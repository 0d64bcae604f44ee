"""One agent, from the import of its module to the last answer.

Knows the order of things; must not know the process: its signals, descriptors, logging and exit.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from typing import TYPE_CHECKING

from fast_agent import FastAgent
from fast_agent.core.exceptions import (
    EnvironmentStartupError,
    FastAgentError,
    ProviderKeyError,
    format_fast_agent_error,
)

from pallas_registry.protocol import HealthReport, ReadyReport, StageReport
from pallas_worker.accept import HttpServer
from pallas_worker.app import WorkerApp
from pallas_worker.calls import Calls
from pallas_worker.errors import AgentError
from pallas_worker.fastagent import open_runtime
from pallas_worker.redact import Redactor, secrets_of
from pallas_worker.served_model import resolve_model

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

    from pallas_registry.protocol import Report, WorkerSpec
    from pallas_worker.fastagent import AgentRuntime

_log = logging.getLogger("pallas.worker.serve")


async def serve(
    spec: WorkerSpec, listener: socket.socket, report: Callable[[Report], None], stopping: asyncio.Event
) -> None:
    """Serve the agent of `spec` on `listener` until `stopping` is set, then drain and return.

    The working directory is `spec.directory` and is on the module path. `listener` is listening and non-blocking;
    it is neither bound nor closed here. `report` is told of the stages, of readiness and of each health report.

    Raises:
        AgentError: the agent cannot be served; its text is what people need to know.
    """
    report(StageReport(stage="importing"))
    fast = _import_agent(spec.module)
    report(StageReport(stage="creating"))
    try:
        async with open_runtime(fast, spec.agent) as runtime:
            await _try_one_instance(runtime)
            await _serve(spec, runtime, listener, report, stopping)
    except FastAgentError as error:
        # A broken definition stays broken; an environment may come up later.
        permanent = not isinstance(error, EnvironmentStartupError)
        message = f"{type(error).__name__}: {format_fast_agent_error(error)}"
        raise AgentError(message, permanent=permanent) from error


async def _serve(
    spec: WorkerSpec,
    runtime: AgentRuntime,
    listener: socket.socket,
    report: Callable[[Report], None],
    stopping: asyncio.Event,
) -> None:
    model = resolve_model(runtime.context, runtime.served.model)
    calls = Calls(spec.agent, runtime, model, Redactor(secrets_of(os.environ)))
    app = WorkerApp(spec, calls, _Unprobed())
    report(StageReport(stage="serving"))
    asgi = app.asgi(spec.allowed_hosts)
    async with app.server.session_manager.run():
        http = HttpServer(asgi, listener)
        http.start()
        report(ReadyReport(model=model.qualified, capabilities=spec.capabilities))
        await stopping.wait()
        http.stop_accepting()
        await http.drain(spec.stop_timeout)


def _import_agent(module: str) -> FastAgent:
    """Import the user's module and find its `fast`.

    Raises:
        AgentError: there is no such module, it cannot be imported, or it has no `fast`.
    """
    # Not every FastAgent(...) passes parse_cli_args=False, and our arguments are not its affair.
    sys.argv = [module]
    try:
        fast = getattr(importlib.import_module(module), "fast", None)
    except (Exception, SystemExit) as error:
        raise AgentError(_last_line(error), permanent=True) from error
    if fast is None:
        raise AgentError(f"{module} has no `fast`: add fast = FastAgent(...) at module level", permanent=True)
    if not isinstance(fast, FastAgent):
        kind = type(fast).__name__
        raise AgentError(f"`fast` of {module} must be a FastAgent, not {kind}", permanent=True)
    return fast


async def _try_one_instance(runtime: AgentRuntime) -> None:
    """Make an instance and dispose of it: what is wrong shows now, and the first caller does not pay for imports."""
    try:
        async with runtime.instance(None, lambda *_: None) as instance:
            for server, reason in instance.unreachable.items():
                _log.warning("downstream server %s cannot be reached: %s", server, reason)
    except ProviderKeyError as error:
        # Preflight only warns: the key may come with a later request, or with a reload.
        _log.warning("the agent's LLM has no key: %s", error.message)
    except FastAgentError:
        raise
    except Exception as error:
        raise AgentError(_last_line(error), permanent=False) from error


def _last_line(error: BaseException) -> str:
    """The last line of the error's traceback that says something, as in `ModuleNotFoundError: No module named 'x'`."""
    lines = [line.strip() for part in traceback.format_exception_only(error) for line in part.splitlines()]
    return next((line for line in reversed(lines) if line), type(error).__name__)


class _Unprobed:
    async def newest(self) -> HealthReport:
        import datetime

        now = datetime.datetime.now(datetime.UTC)
        return HealthReport(status="ok", timestamp=now.isoformat(timespec="seconds").replace("+00:00", "Z"))
