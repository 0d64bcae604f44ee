"""Spans of a worker: its calls', those of fast-agent, of LLM clients and of the MCP SDK; trace context in and out.

Knows OpenTelemetry's interface; its SDK is imported only where tracing is on. One worker, one tracer provider, made
after the fork. Without tracing, a client's trace context still goes on to downstream servers.
"""

from __future__ import annotations

import importlib
import os
import secrets
import sys
import warnings
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.mcp.agent_tools import GET_HEALTH
from pallas_common.tracing.settings import tracing_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping
    from contextlib import AbstractContextManager

    import httpx2
    from fast_agent.config import OpenTelemetrySettings, Settings
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from pallas_common.protocol.spec import WorkerSpec
    from pallas_common.secrets.values import KnownSecrets
    from pallas_common.tracing.provider import Tracing

_LLM_CLIENTS = (
    ("openai", "opentelemetry.instrumentation.openai", "OpenAIInstrumentor"),
    ("anthropic", "opentelemetry.instrumentation.anthropic", "AnthropicInstrumentor"),
    ("google.genai", "opentelemetry.instrumentation.google_genai", "GoogleGenAiSdkInstrumentor"),
)
"""A client's module, and what makes spans of its requests: fast-agent's own choice."""

_W3C = TraceContextTextMapPropagator()
"""Of headers. Baggage is not passed on: it is whatever a client says, and downstream servers are strangers."""

_log = get_logger("pallas.worker.tracing")
_tracing: Tracing | None = None


def open_tracing(spec: WorkerSpec, settings: Settings, hidden: KnownSecrets) -> None:
    """Trace from now on, if the environment asks for it, or else fast-agent's settings do (`otel.enabled`).

    `hidden` is in no span. fast-agent is kept from making a provider of its own: that would export prompts.
    """
    global _tracing
    _follow_settings(settings.otel, os.environ)
    if settings.otel is not None:
        settings.otel.enabled = False
    wanted = tracing_settings(os.environ)
    if wanted.problem:
        _log.warning(f"tracing is off: {wanted.problem}")
    if not wanted.on:
        return
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        _log.warning("the agent's module has set a tracer provider of its own, which is left alone")
        return
    resource: dict[str, str | int] = {
        "service.name": spec.agent,
        "service.namespace": spec.deployment,
        "service.version": spec.version,
        "service.instance.id": f"{spec.agent}-{spec.generation}-{os.getpid()}",
    }
    _tracing = importlib.import_module("pallas_common.tracing.provider").open_tracing(
        wanted, resource, hidden
    )
    if _tracing is not None:
        os.environ["TRACELOOP_TRACE_CONTENT"] = str(wanted.content).lower()
        _instrument(_tracing)


def close_tracing() -> None:
    """Send the last spans, within bounds."""
    if _tracing is not None:
        _tracing.close()


def span(name: str, **attributes: str | float) -> AbstractContextManager[trace.Span]:
    """A span of the block inside it, current there; without tracing, one that does nothing."""
    if _tracing is None:
        return nullcontext(trace.INVALID_SPAN)
    named = {f"pallas.{key}": value for key, value in attributes.items()}
    return _tracing.tracer.start_as_current_span(name, attributes=named)


def set_outcome(current: trace.Span, outcome: str) -> None:
    """Say on the span how what it stands for went: `ok` or `error`."""
    current.set_attribute("pallas.outcome", outcome)
    if outcome != "ok":
        current.set_status(trace.StatusCode.ERROR)


@contextmanager
def untraced() -> Iterator[None]:
    """What is begun inside the block, for no call, makes no spans: nor do tasks that are made there."""
    if _tracing is None:
        yield
        return
    token = contexts.attach(_unsampled())
    try:
        yield
    finally:
        contexts.detach(token)


def _unsampled() -> Context:
    """A context in which spans are not recorded, here and in whatever is called from it."""
    unsampled = trace.SpanContext(secrets.randbits(128), secrets.randbits(64), is_remote=False)
    return trace.set_span_in_context(trace.NonRecordingSpan(unsampled), Context())


async def continue_trace(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
    """Middleware: a request's spans belong to the trace that its HTTP headers name.

    The trace that its `_meta` names wins: the SDK's own middleware, which comes next, takes care of that. Without
    either, a message to the agent begins a trace; a handshake, a listing or a look at its health is not worth one.
    The context outside is that in which the connection was accepted, and is not used.
    """
    headers = ctx.request.headers if ctx.request is not None else {}
    with inbound_trace(headers, begins=_is_message(ctx)):
        return await call_next(ctx)


@contextmanager
def inbound_trace(headers: Mapping[str, str], *, begins: bool = True) -> Iterator[None]:
    """Inside the block, spans belong to the trace that a request's headers name.

    Where they name none, it is one of its own, if such a request `begins` one.
    """
    if "traceparent" in headers:
        outer = _W3C.extract(headers, Context())
    elif _tracing is not None and not begins:
        outer = _unsampled()
    else:
        outer = Context()
    token = contexts.attach(outer)
    try:
        yield
    finally:
        contexts.detach(token)


def _is_message(ctx: ServerRequestContext[Any]) -> bool:
    return ctx.method == "tools/call" and (ctx.params or {}).get("name") != GET_HEALTH


async def add_trace_headers(request: httpx2.Request) -> None:
    """Event hook of HTTP clients for downstream servers: the trace's context as W3C headers, beside `_meta`."""
    if trace.get_current_span().get_span_context().is_valid:
        _W3C.inject(request.headers)


def _follow_settings(otel: OpenTelemetrySettings | None, environ: MutableMapping[str, str]) -> None:
    """Say fast-agent's settings in the standard variables, where those say nothing."""
    if otel is None or not otel.enabled:
        return
    if any(environ.get(f"OTEL_{name}") for name in _DECISIVE):
        return
    environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = otel.otlp_endpoint
    environ.setdefault("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    environ.setdefault("OTEL_TRACES_SAMPLER_ARG", str(otel.sample_rate))
    if otel.service_name != type(otel).model_fields["service_name"].default:
        environ.setdefault("OTEL_SERVICE_NAME", otel.service_name)


_DECISIVE = ("TRACES_EXPORTER", "EXPORTER_OTLP_ENDPOINT", "EXPORTER_OTLP_TRACES_ENDPOINT", "SDK_DISABLED")


def _instrument(tracing: Tracing) -> None:
    """Let the LLM clients that are loaded make spans of their requests."""
    for client, module, name in _LLM_CLIENTS:
        if client not in sys.modules:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the instrumentations' own old-fashioned code
                instrumentor = getattr(importlib.import_module(module), name)()
                instrumentor.instrument(tracer_provider=tracing.provider)
        except Exception as error:  # noqa: BLE001 - a trace without these spans is a trace
            _log.warning(f"no spans of requests to LLMs by {client}: {error}")
