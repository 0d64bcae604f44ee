"""What the protocol of MCP tells while it works, on its way to the audit, to metrics and to spans."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, cast

from opentelemetry import context as contexts

from pallas_gateway.access import audit as lines
from pallas_gateway.mcp.admitted import AuditUnavailableError
from pallas_gateway.mcp.errors import INVALID_PARAMS
from pallas_gateway.telemetry import metrics, tracing
from pallas_gateway.telemetry.current import current

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span

    from pallas_gateway.mcp.admitted import AuditedCall, Outcome
    from pallas_gateway.mcp.surface import ClientRequest

_OUTCOMES: dict[Outcome, lines.Outcome] = {
    "ok": "ok",
    "denied": "denied",
    "limited": "denied",
    "cancelled": "cancelled",
}
"""All others are errors."""


class CallAudit:
    """Writes calls of tools into the audit."""

    def __init__(self, audit: lines.Audit) -> None:
        self._audit = audit

    def begin(self, request: ClientRequest, what: str) -> object:
        """Write down that a call begins.

        Raises:
            AuditUnavailableError: it cannot be written down, and is not made.
        """
        entry = lines.Entry(
            principal=request.principal,
            action="tools/call",
            target=what,
            request_id=request.request_id,
            trace_id=tracing.trace_id(request.headers),
        )
        try:
            self._audit.check()
            self._audit.begin(entry)
        except lines.AuditUnavailableError as error:
            raise AuditUnavailableError(str(error)) from None
        return entry

    def called(self, call: AuditedCall) -> None:
        """Write it down.

        Raises:
            AuditUnavailableError: it cannot be.
        """
        result, entry = call.result, cast("lines.Entry", call.begun)
        entry.outcome = _OUTCOMES.get(call.outcome, "error")
        entry.duration_ms = call.duration * 1000
        if self._audit.content:
            entry.asked = dict(call.arguments)
            entry.answered = result.decode(errors="replace") if isinstance(result, bytes) else result
        try:
            self._audit.write(entry)
        except lines.AuditUnavailableError as error:
            raise AuditUnavailableError(str(error)) from None


class Observer:
    """Counts requests of MCP, and makes spans of those that do something."""

    def begin(self, request: ClientRequest, name: str | None) -> RequestObservation:
        """One begins."""
        return RequestObservation(request, name)


class RequestObservation:
    """One request that is under way."""

    __slots__ = ("_attached", "_began", "_method", "_name", "_span", "_stack", "_surface")

    def __init__(self, request: ClientRequest, name: str | None) -> None:
        self._method = request.method
        self._name = name
        self._surface = current().surface
        self._began = time.perf_counter()
        outer = tracing.inbound_trace(request.headers, request.params.get("_meta"))
        self._attached = None if outer is None else contexts.attach(outer)
        self._stack: ExitStack | None = None
        self._span: Span | None = None
        if name is not None and (span := _span(request, name)) is not None:
            self._stack = ExitStack()
            self._span = self._stack.enter_context(span)

    def end(self, outcome: Outcome, code: int | None) -> None:
        """It is over."""
        current().outcome = outcome
        if self._method == "tools/call":
            # What a client makes up is no tool.
            tool = metrics.OTHER if code == INVALID_PARAMS or self._name is None else _label(self._name)
            metrics.observe_tool(self._surface, tool, time.perf_counter() - self._began)
        elif self._method == "resources/read":
            metrics.count_read(self._surface, outcome)
        if self._stack is not None and self._span is not None:
            tracing.set_outcome(self._span, outcome)
            self._stack.close()
        if self._attached is not None:
            contexts.detach(self._attached)


def _label(tool: str) -> str:
    """The tool; of a server's, the server."""
    return tool.partition("__")[0]


def _span(request: ClientRequest, name: str) -> AbstractContextManager[Span] | None:
    match request.method:
        case "tools/call":
            return tracing.tool_span(request.principal, name, request.session)
        case "resources/read":
            return tracing.read_span(request.principal, name, request.session)
    return None
