"""What the protocol tells of requests, as audit lines, counts and spans."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from pallas_gateway.access import audit
from pallas_gateway.mcp.admitted import AuditUnavailableError
from pallas_gateway.telemetry import metrics, tracing

if TYPE_CHECKING:
    from pallas_gateway.mcp.admitted import AuditedCall, Outcome
    from pallas_gateway.mcp.surface import ClientRequest

_OUTCOMES: dict[Outcome, audit.Outcome] = {
    "ok": "ok",
    "failed": "error",
    "error": "error",
    "denied": "denied",
    "limited": "denied",
    "cancelled": "cancelled",
}


class AuditedCalls:
    """Calls of tools in the audit."""

    def __init__(self, file: audit.Audit) -> None:
        self._file = file

    def check(self) -> None:
        """Before a call.

        Raises:
            AuditUnavailableError: it could not be written down.
        """
        try:
            self._file.check()
        except audit.AuditUnavailableError as error:
            raise AuditUnavailableError(str(error)) from error

    def called(self, call: AuditedCall) -> None:
        """Write down a call that was made.

        Raises:
            AuditUnavailableError: it cannot be.
        """
        request = call.request
        result = call.result
        entry = audit.Entry(
            principal=request.principal,
            action="tools/call",
            target=call.what,
            outcome=_OUTCOMES[call.outcome],
            duration_ms=call.duration * 1000,
            request_id=request.request_id,
            trace_id=tracing.trace_id(request.headers),
        )
        if self._file.content:
            entry.asked = dict(call.arguments)
            entry.answered = result.decode("utf-8", "replace") if isinstance(result, bytes) else result
        try:
            self._file.write(entry)
        except audit.AuditUnavailableError as error:
            raise AuditUnavailableError(str(error)) from error


class Observed:
    """Requests of MCP in metrics and traces."""

    def begin(self, request: ClientRequest, name: str | None) -> Observation:
        """A request begins."""
        return Observation(request, name)


class Observation:
    """One request that is under way."""

    def __init__(self, request: ClientRequest, name: str | None) -> None:
        self._request = request
        self._name = name or ""
        self._begun = time.perf_counter()
        self._open = contextlib.ExitStack()
        self._open.enter_context(tracing.inbound_trace(request.headers))
        match request.method:
            case "tools/call":
                span = tracing.tool_span(request.principal, self._name, request.session)
            case "resources/read":
                span = tracing.read_span(request.principal, self._name, request.session)
            case _:
                span = contextlib.nullcontext()  # type: ignore[assignment]
        self._span = self._open.enter_context(span)

    def end(self, outcome: Outcome, code: int | None) -> None:
        """It is over."""
        request, role = self._request, self._request.principal.role
        surface = "management" if role == "human" else "compositor"
        metrics.count_request(surface, role, outcome)
        if request.method == "tools/call":
            metrics.observe_tool(surface, self._name, time.perf_counter() - self._begun)
        elif request.method == "resources/read":
            metrics.count_read(surface, outcome)
        if self._span is not None:
            tracing.set_outcome(self._span, outcome)
        self._open.close()
