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
import contextvars
from typing import TYPE_CHECKING, Any

from pallas_common.http.connections import Connections
from pallas_common.http.descriptors import share_of_descriptors
from pallas_common.http.server import HttpServer
from pallas_common.logs.setup import get_logger
from pallas_common.protocol.agent.output_schema.errors import SchemaError
from pallas_common.protocol.link.heartbeat import beat
from pallas_common.protocol.mcp.chain import link
from pallas_common.protocol.reports import Heartbeat, IdleReport, ReadyReport, StageReport
from pallas_worker.agent.models.capabilities import overlaid_keys, published_capabilities
from pallas_worker.agent.runtime import open_runtime
from pallas_worker.calls.admission import Admission
from pallas_worker.calls.call import Calls
from pallas_worker.calls.idleness import Idleness
from pallas_worker.downstreams.credentials import credentials_of
from pallas_worker.downstreams.siblings import siblings_among
from pallas_worker.health.report import Health
from pallas_worker.http.mcp_app import WorkerApp
from pallas_worker.http.self_check import self_check
from pallas_worker.interface.errors import AgentError
from pallas_worker.process.declared.turns import defaults_of, other_models, permitted_tools
from pallas_worker.process.preparation import (
    ImportedCode,
    complete_code,
    definition_errors,
    providers_to_probe,
    qualified,
    try_instance,
)
from pallas_worker.redact import known
from pallas_worker.telemetry import metrics
from pallas_worker.telemetry.tracing import close_tracing, open_tracing, untraced

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine

    from fast_agent.config import Settings

    from pallas_common.protocol.agent.output_schema.schema import OutputSchema
    from pallas_common.protocol.reports import Report
    from pallas_common.protocol.spec import WorkerSpec
    from pallas_worker.agent.runtime import AgentRuntime
    from pallas_worker.calls.admission import ObserveCalls
    from pallas_worker.process.preparation import Trial

QUIET = 1.0
"""Seconds for which all connections have to have been idle before a worker that nobody calls leaves its port."""
ENDED_WITHIN = 0.5
"""Seconds after which a worker that has said that it is idle takes connections again, should it not be ended."""

OTHER_CONNECTIONS = 1024
"""Connections beside those with calls: idle ones, health checks, scrapes."""

_log = get_logger("pallas.worker.serve")


async def serve(
    spec: WorkerSpec,
    imported: ImportedCode,
    listener: socket.socket,
    report: Callable[[Report], None],
    stopping: asyncio.Event,
) -> None:
    """Serve the agent of `spec` on `listener` until `stopping` is set, then drain and return.

    `imported` is what `preparation.import_code` made of `spec`. `listener` is listening and does not block; it is
    neither bound nor closed here. `report` takes stages, readiness and health.

    Raises:
        AgentError: the agent cannot be served; its text says why, in one line.
    """
    fast, settings, code = await complete_code(spec, imported, report)
    open_tracing(spec, settings, known)
    try:
        # What fast-agent begins here lasts as long as the worker, and belongs to no call's trace.
        with untraced(), definition_errors(spec):
            async with open_runtime(fast, spec.agent, permitted_tools(spec), credentials_of(spec)) as runtime:
                known.add(runtime.secret_keys)
                known.add(overlaid_keys(other_models(spec)))
                runtime.siblings = siblings_among(runtime.downstreams, spec.siblings, spec.allowed_hosts)
                making = try_instance(spec, runtime, code, runtime.first_instance())
                trial = await _unless(stopping, making)
                if trial is not None and not stopping.is_set():
                    await _serve(spec, runtime, settings, trial, listener, report, stopping)
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
    health = Health(
        spec.agent,
        runtime.downstreams,
        providers_to_probe(runtime, settings, trial.failure),
        report,
        failure=trial.failure,
        unattached=runtime.reachability.watched_down,
        attach_again=runtime.attach_again,
        missing=runtime.reachability.missing,
        interval=spec.probe_interval,
        slow_after=spec.slow_after,
        on_demand=[name for name, sibling in runtime.siblings.items() if sibling.on_demand],
    )
    runtime.reachability.listener = health.attachment
    idleness = Idleness(spec.idle_timeout, lambda: _leave(http, report, stopping), _later_in_no_call())
    admission = Admission(spec.max_concurrency, spec.max_queue, _observing(spec.agent, idleness))
    output = _output_schema(spec)
    calls = Calls(
        spec.agent,
        runtime,
        admission=admission,
        vision=runtime.vision(),
        model_called=health.model_called,
        output=output,
        models=other_models(spec),
        defaults=defaults_of(spec),
        link=link(spec.agent, spec.deployment),
        max_returns=spec.max_returns,
        is_model_down=health.is_model_down,
        shortens=spec.context_overflow == "shorten",
    )
    app = WorkerApp(spec, calls, health)
    report(StageReport(stage="serving"))
    asgi = app.asgi(spec.allowed_hosts)
    background: list[asyncio.Task[Any]] = []
    try:
        async with app.server.session_manager.run():
            http = HttpServer(asgi, listener, _connections(spec))
            complaint = await self_check(http, spec.port, spec.key)
            if complaint is None:
                http.start()
                published = published_capabilities(runtime.model, spec.default_model, spec.capabilities)
                heart = Heartbeat(interval=spec.liveness_interval)
                report(heart)
                model = qualified(runtime.model)
                parts, servers, left_out = runtime.parts(trial.tools, qualified)
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
                if spec.start == "on-demand":
                    idleness.begin()
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
        idleness.end()
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)


def _leave(http: HttpServer, report: Callable[[Report], None], stopping: asyncio.Event) -> bool:
    """Leave the port between two connections and say that nobody calls; whether that could be done.

    In this order, because the end that follows gives calls no more than `stop_timeout`, and one that began just before
    it may take longer. So none can begin: whoever connects from now on waits for the next worker.
    """

    def accept_again() -> None:
        if not stopping.is_set():
            http.accept_again()

    left = http.leave_if_quiet(QUIET)
    if left:
        report(IdleReport())
        asyncio.get_running_loop().call_later(ENDED_WITHIN, accept_again)
    return left


def _observing(agent: str, idleness: Idleness) -> ObserveCalls:
    """Who is told how many calls run and wait."""

    def observe(running: int, waiting: int) -> None:
        metrics.set_calls(agent, running, waiting)
        idleness.observe(running, waiting)

    return observe


def _later_in_no_call() -> Callable[[float, Callable[[], None]], asyncio.TimerHandle]:
    """The loop's way to call something later, in the context of now and not in that of the call that asks for it."""
    loop, outside = asyncio.get_running_loop(), contextvars.copy_context()
    return lambda seconds, act: loop.call_later(seconds, act, context=outside)


def _connections(spec: WorkerSpec) -> Connections:
    """The connections that the port may hold: room for all calls that may run or wait, and for those who look.

    A quarter of the descriptors stays for what the agent opens.
    """
    limit = share_of_descriptors(3 / 4, OTHER_CONNECTIONS + spec.max_concurrency + spec.max_queue)
    what = "socket" if spec.port is None else "port"
    return Connections(f"{what} of {spec.agent}", limit)


def _with_every_beat(report: Callable[[Report], None]) -> Callable[[Report], None]:
    """What a beat does: it reports, and looks whether the metrics files are still there."""

    def beat_once(heart: Report) -> None:
        report(heart)
        metrics.look_after_files()

    return beat_once


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


def _output_schema(spec: WorkerSpec) -> OutputSchema | None:
    """What the agent's answers have to fit.

    Raises:
        AgentError: the schema is refused, which the reader of agents.yaml would have done.
    """
    if spec.output_schema is None:
        return None
    from pallas_common.protocol.agent.output_schema.schema import (
        OutputSchema,  # 30 ms that other agents do not pay
    )

    try:
        return OutputSchema(spec.output_schema)
    except SchemaError as error:
        raise AgentError(f"output_schema: {error}", permanent=True) from error
