"""One agent, from the import of its module to the last answer.

The drain at the end, and why in this order: first the port is left, between two connections, so that what is not
accepted yet waits in the shared socket for the next worker. Then what works beside calls ends: instances made ahead,
and heartbeats, since `stop_timeout` bounds what is left. Then calls get that time to end; health goes on meanwhile.
To close the listener, as servers of asyncio do, loses accepted connections: of a prototype that did, 4 of 10,500
requests failed, of this order 0 of 29,000 (see `HttpServer.drain`).

Knows the order of things; must not know the process: its signals, descriptors, logging and exit.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from fast_agent.core.exceptions import (
    EnvironmentStartupError,
    FastAgentError,
    ProviderKeyError,
    format_fast_agent_error,
)

from pallas_common.http.connections import Connections
from pallas_common.http.descriptors import share_of_descriptors
from pallas_common.http.server import HttpServer
from pallas_common.logs.setup import get_logger
from pallas_common.protocol.llm import ModelCapabilities
from pallas_common.protocol.reports import Heartbeat, ReadyReport, StageReport
from pallas_common.secrets.values import secrets_in
from pallas_worker.agent.models.capabilities import (
    model_reference,
    published_capabilities,
    register_model,
)
from pallas_worker.agent.models.keys import key_remedy
from pallas_worker.agent.models.providers import forget_unresolved, provider_of, settle_addresses
from pallas_worker.agent.runtime import open_runtime
from pallas_worker.calls.admission import Admission
from pallas_worker.calls.call import Calls
from pallas_worker.downstreams.settings import unset_variables
from pallas_worker.fastagent.application import settings_of
from pallas_worker.fastagent.shortcuts import share_tls_with_providers
from pallas_worker.health.needs import providers_for
from pallas_worker.health.report import Health
from pallas_worker.http.mcp_app import WorkerApp
from pallas_worker.http.self_check import self_check
from pallas_worker.interface.errors import AgentError
from pallas_worker.link.heartbeat import beat
from pallas_worker.process.user_module.errors import UserCode
from pallas_worker.process.user_module.loading import load_agents
from pallas_worker.redact import known
from pallas_worker.telemetry import metrics
from pallas_worker.telemetry.tracing import close_tracing, open_tracing, untraced

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from fast_agent.config import Settings

    from pallas_common.protocol.reports import Report
    from pallas_common.protocol.spec import WorkerSpec
    from pallas_worker.agent.models.capabilities import AskedModel
    from pallas_worker.agent.models.providers import ProviderSettings
    from pallas_worker.agent.runtime import AgentRuntime

OTHER_CONNECTIONS = 1024
"""Connections beside those with calls: idle ones, health checks, scrapes."""

_log = get_logger("pallas.worker.serve")


async def serve(
    spec: WorkerSpec,
    listener: socket.socket,
    report: Callable[[Report], None],
    stopping: asyncio.Event,
) -> None:
    """Serve the agent of `spec` on `listener` until `stopping` is set, then drain and return.

    The working directory is `spec.directory` and is on the module path. `listener` is listening and does not
    block; it is neither bound nor closed here. `report` takes stages, readiness and health.

    Raises:
        AgentError: the agent cannot be served; its text says why, in one line.
    """
    report(StageReport(stage="importing"))
    code = UserCode(spec.directory, spec.source)
    loaded = await load_agents(spec.source, code, report)
    fast = loaded.fast
    for warning in loaded.warnings:
        _log.warning(warning)
    report(StageReport(stage="creating"))
    settings = settings_of(fast)
    known.add(secrets_in(settings.model_dump()))
    _complete(settings, spec)
    open_tracing(spec, settings, known)
    try:
        # What fast-agent begins here lasts as long as the worker, and belongs to no call's trace.
        with untraced():
            async with open_runtime(fast, spec.agent) as runtime:
                known.add(runtime.secret_keys)
                trial = await _unless(stopping, _try_one_instance(runtime, code))
                if trial is not None and not stopping.is_set():
                    await _serve(spec, runtime, settings, trial, listener, report, stopping)
    except FastAgentError as error:
        # A broken definition stays broken; an environment may come up later.
        permanent = not isinstance(error, EnvironmentStartupError)
        raise AgentError(f"{type(error).__name__}: {_advice(error)}", permanent=permanent) from error
    finally:
        close_tracing()


async def _serve(
    spec: WorkerSpec,
    runtime: AgentRuntime,
    settings: Settings,
    trial: Trial,
    listener: socket.socket,
    report: Callable[[Report], None],
    stopping: asyncio.Event,
) -> None:
    def provider_of_model(model: AskedModel) -> ProviderSettings | None:
        provider = provider_of(model, settings, os.environ)
        if provider is not None and provider.api_key is None and trial.failure is None:
            return (
                None  # it has credentials of another kind, such as ANTHROPIC_AUTH_TOKEN: only calls can show
            )
        return provider

    health = Health(
        spec.agent,
        runtime.downstreams,
        providers_for(runtime.asked_models, provider_of_model),
        report,
        failure=trial.failure,
        unattached=runtime.reachability.watched_down,
        attach_again=runtime.attach_again,
        interval=spec.probe_interval,
        slow_after=spec.slow_after,
    )
    runtime.reachability.listener = health.attachment
    admission = Admission(
        spec.max_concurrency,
        spec.max_queue,
        lambda running, waiting: metrics.set_calls(spec.agent, running, waiting),
    )
    calls = Calls(
        spec.agent,
        runtime,
        admission=admission,
        vision=runtime.vision,
        model_called=health.model_called,
    )
    app = WorkerApp(spec, calls, health)
    report(StageReport(stage="serving"))
    asgi = app.asgi(spec.allowed_hosts)
    background: list[asyncio.Task[Any]] = []
    try:
        async with app.server.session_manager.run():
            http = HttpServer(asgi, listener, _connections(spec))
            complaint = await self_check(http, spec.port)
            if complaint is None:
                http.start()
                published = published_capabilities(runtime.model, spec.default_model, spec.capabilities)
                heart = Heartbeat(interval=spec.liveness_interval)
                report(heart)
                model = _qualified(runtime.model)
                parts, servers, left_out = runtime.parts(trial.tools, _qualified)
                report(
                    ReadyReport(
                        model=model,
                        capabilities=published,
                        served=runtime.agent,
                        parts=parts,
                        servers=servers,
                        left_out=left_out,
                    )
                )
                # Only now: readiness does not wait for what is done ahead of calls, or beside them.
                warming = asyncio.create_task(runtime.keep_warm(calls.observe))
                background += [
                    asyncio.create_task(health.run()),
                    warming,
                ]
                beating = asyncio.create_task(beat(heart, _with_every_beat(report)))
                background.append(beating)
                await stopping.wait()
                http.stop_accepting()
                warming.cancel()
                beating.cancel()
                _log.info(f"draining, for {spec.stop_timeout:g} s at most")
                await http.drain(spec.stop_timeout)
        if complaint is not None:  # raised out here, because the session manager would wrap it
            raise AgentError(complaint, permanent=False)
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)


def _connections(spec: WorkerSpec) -> Connections:
    """The connections that the port may hold: room for all calls that may run or wait, and for those who look.

    A quarter of the descriptors stays for what the agent opens.
    """
    limit = share_of_descriptors(3 / 4, OTHER_CONNECTIONS + spec.max_concurrency + spec.max_queue)
    return Connections(f"port of {spec.agent}", limit)


def _with_every_beat(report: Callable[[Report], None]) -> Callable[[Report], None]:
    """What a beat does: it reports, and looks whether the metrics files are still there."""

    def beat_once(heart: Report) -> None:
        report(heart)
        metrics.look_after_files()

    return beat_once


def _complete(settings: Settings, spec: WorkerSpec) -> None:
    """Put right what fast-agent would misread: placeholders that nothing fills, an unknown model."""
    for warning in forget_unresolved(settings):
        _log.warning(warning)
    settle_addresses(settings, os.environ)
    if settings.default_model is None:
        settings.default_model = spec.default_model
    if spec.default_model is not None:
        register_model(spec.default_model, spec.capabilities or ModelCapabilities())


def _qualified(model: str | None) -> str | None:
    """The model as `provider.model-name`."""
    if model is None:
        return None
    reference = model_reference(model)
    return f"{reference.provider}.{reference.name}" if reference.provider is not None else reference.name


def _advice(error: FastAgentError) -> str:
    """What is wrong and what to do, in one line; fast-agent's advice for its own command line is none here."""
    if error.message == "No model configured":
        remedy = "set default_model in fastagent.config.yaml, or model= in the agent's decorator"
        return f"{error.message}: {remedy}"
    return format_fast_agent_error(error)


class Trial(NamedTuple):
    """What the making of an instance has shown."""

    failure: str | None
    """Why no call can be answered and what to do about it, in one line; None if nothing is known to be wrong."""
    tools: Mapping[str, Sequence[str]]
    """By agent, the names of the tools that it can call."""


async def _try_one_instance(runtime: AgentRuntime, code: UserCode) -> Trial:
    """Make and dispose of an instance: what is wrong shows now, and no caller pays for late imports."""
    failure: str | None = None
    tools: Mapping[str, Sequence[str]] = {}
    for server in runtime.downstreams:
        for header, variable in unset_variables(server):
            _log.warning(f"server {server.name}: the header {header} names {variable}, which is not set")
    try:
        async with runtime.instance(None, lambda *_: None) as instance:
            for name, remedy, needed in instance.missing_keys():
                if needed:
                    failure = failure or remedy
                else:
                    _log.warning(f"the LLM of {name}, which is only asked as a tool: {remedy}")
            share_tls_with_providers()
            tools = await instance.tool_names()
    except ProviderKeyError as error:
        _log.warning(f"no instance can be made: {key_remedy(error)}")
        failure = None if runtime.takes_callers_keys else key_remedy(error)
    except FastAgentError:
        raise
    except Exception as error:
        raise AgentError(code.describe(error), permanent=False) from error
    return Trial(failure, tools)


async def _unless[Result](stopping: asyncio.Event, work: Coroutine[None, None, Result]) -> Result | None:
    """Do `work` and give its result, but drop it once `stopping` is set, and give None."""
    doing = asyncio.create_task(work)
    stopped = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait((doing, stopped), return_when=asyncio.FIRST_COMPLETED)
        return await doing if doing.done() else None
    finally:
        for task in (doing, stopped):
            task.cancel()
        await asyncio.gather(doing, stopped, return_exceptions=True)
