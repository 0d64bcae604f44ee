"""Spans of the gateway: calls of tools, reads; trace context in and out.

Knows OpenTelemetry's interface; its SDK is imported only where tracing is on. Without tracing, a client's trace context
still goes on to workers and servers. Baggage does not: it is whatever a client says.
"""

from __future__ import annotations

import importlib
import os
import re
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pallas_common.logs.setup import get_logger
from pallas_common.tracing.settings import tracing_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from pallas_common.protocol.gateway import GatewaySpec
    from pallas_common.secrets.values import KnownSecrets
    from pallas_common.tracing.provider import Tracing
    from pallas_gateway.identity.principal import Principal

LONGEST_NAME = 128
"""Characters of what a client says to be an agent's name."""
_W3C = TraceContextTextMapPropagator()
_TRACE = re.compile(r"[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")

_log = get_logger("pallas.gateway.tracing")
_tracing: Tracing | None = None


def open_tracing(spec: GatewaySpec, hidden: KnownSecrets) -> None:
    """Trace from now on, if the environment asks for it. `hidden` is in no span."""
    global _tracing
    wanted = tracing_settings(os.environ)
    if wanted.problem:
        _log.warning(f"tracing is off: {wanted.problem}")
    if not wanted.on:
        return
    resource: dict[str, str | int] = {
        "service.name": "pallas-gateway",
        "service.namespace": spec.deployment,
        "service.version": spec.version,
        "service.instance.id": f"gateway-{spec.generation}-{os.getpid()}",
    }
    _tracing = importlib.import_module("pallas_common.tracing.provider").open_tracing(
        wanted, resource, hidden
    )


def close_tracing() -> None:
    """Send the last spans, within bounds."""
    if _tracing is not None:
        _tracing.close()


def inbound_trace(headers: Mapping[str, str], meta: object) -> Context | None:
    """The trace that a request names, in `_meta` or else by its headers; an empty one where it is to have its own.

    None: there is nothing to be done, as for most requests.

    Args:
        meta: `_meta` of its params, from a client, whatever it is.
    """
    found = _said(meta) if isinstance(meta, dict) else {}
    if not found and "traceparent" in headers:
        found = _said(headers)
    if not found:
        return None if _tracing is None else Context()
    return _W3C.extract(found, Context())


def _said(carrier: Mapping[str, object]) -> dict[str, str]:
    """What it says of a trace; empty without `traceparent`."""
    if not isinstance(carrier.get("traceparent"), str):
        return {}
    return {name: value for name in _W3C.fields if isinstance(value := carrier.get(name), str)}


def outbound_headers() -> dict[str, str]:
    """`traceparent` and `tracestate` for what is asked of a worker or a server now; empty without a trace."""
    headers: dict[str, str] = {}
    if trace.get_current_span().get_span_context().is_valid:
        _W3C.inject(headers)
    return headers


def trace_id(headers: Mapping[str, str]) -> str | None:
    """The trace to which a request belongs, as 32 hexadecimal digits; None for none."""
    current = trace.get_current_span().get_span_context()
    if current.is_valid:
        return f"{current.trace_id:032x}"
    found = _TRACE.fullmatch(headers.get("traceparent", ""))
    return found["trace"] if found is not None else None


def tool_span(principal: Principal, tool: str, session: str | None) -> AbstractContextManager[trace.Span]:
    """`mcp.tool.call`: a call of a tool."""
    return _span("mcp.tool.call", principal, session, **{"mcp.tool.name": tool})


def read_span(principal: Principal, uri: str, session: str | None) -> AbstractContextManager[trace.Span]:
    """`mcp.resource.read`: a resource is read."""
    return _span("mcp.resource.read", principal, session, **{"mcp.resource.uri": uri})


@contextmanager
def agent_span(
    name: str, principal: Principal, agent: str, headers: Mapping[str, str]
) -> Iterator[trace.Span]:
    """`chat`, `chat.completions`: an agent is asked, in the trace that the request names."""
    outer = inbound_trace(headers, None)
    attached = None if outer is None else contexts.attach(outer)
    stack = ExitStack()
    try:
        yield stack.enter_context(_span(name, principal, None, **{"pallas.agent": agent[:LONGEST_NAME]}))
    finally:
        stack.close()  # not told of an exception: its text, which may quote anything, is for no trace
        if attached is not None:
            contexts.detach(attached)


def _span(
    name: str, principal: Principal, session: str | None, **attributes: str
) -> AbstractContextManager[trace.Span]:
    if _tracing is None:
        return nullcontext(trace.INVALID_SPAN)
    said = {**attributes, "mcp.tenant_id": principal.tenant, "mcp.user_id": principal.id}
    if session is not None:
        said["mcp.session_id"] = session
    return _tracing.tracer.start_as_current_span(name, attributes=said, kind=trace.SpanKind.SERVER)


def set_outcome(current: trace.Span, outcome: str) -> None:
    """Say on the span how what it stands for went; everything but `ok` is an error."""
    current.set_attribute("pallas.outcome", outcome)
    if outcome != "ok":
        current.set_status(trace.StatusCode.ERROR)
