"""An OpenTelemetry collector on loopback: takes traces by OTLP over HTTP, as protobuf, and keeps them.

Knows OTLP; must not know anything of Pallas.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from fakes.loopback import Fault, Loopback, Recorded, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette.requests import Request


@dataclass(frozen=True, slots=True)
class Span:
    """One span as it arrived; ids are in hexadecimal, `parent` is empty for a root."""

    name: str
    trace: str
    id: str
    parent: str
    state: str
    """The W3C trace state."""
    failed: bool
    scope: str
    resource: Mapping[str, Any]
    attributes: Mapping[str, Any]
    begin: int
    end: int
    """Nanoseconds since the epoch."""

    @property
    def service(self) -> str:
        """The name of the service that made it."""
        return str(self.resource["service.name"])


class Collector:
    """A running collector."""

    def __init__(self, loopback: Loopback) -> None:
        self._loopback = loopback
        self.origin = loopback.origin
        """What OTEL_EXPORTER_OTLP_ENDPOINT is set to."""
        self.release = loopback.release

    @property
    def raw(self) -> bytes:
        """All that was sent so far, as it came."""
        return b"\0".join(request.body for request in self._loopback.requests)

    @property
    def spans(self) -> list[Span]:
        """All spans so far."""
        return [span for request in self._loopback.requests for span in _spans(request)]

    def wait_for(self, matches: Callable[[list[Span]], bool]) -> list[Span]:
        """The spans, as soon as `matches` is true of them; call it from a thread.

        Raises:
            TimeoutError: it did not become true.
        """
        try:
            self._loopback.wait_for(lambda _: matches(self.spans))
        except TimeoutError:
            raise TimeoutError(
                f"it was not of these: {sorted((s.service, s.name) for s in self.spans)}"
            ) from None
        return self.spans

    def wait_for_request(self) -> None:
        """Return once something has been sent."""
        self._loopback.wait_for(bool)


@contextmanager
def run_collector(fault: Fault | None = None) -> Iterator[Collector]:
    """Run a collector until the block ends; `fault` is what happens to each request."""

    async def take(request: Request) -> Response:
        answer = ExportTraceServiceResponse().SerializeToString()
        return Response(answer, media_type="application/x-protobuf")

    app = Starlette(routes=[Route("/v1/traces", take, methods=["POST"])])
    with serve(app, fault=lambda _: fault) as loopback:
        yield Collector(loopback)


def _spans(request: Recorded) -> Iterator[Span]:
    assert request.headers["content-type"] == "application/x-protobuf"
    for of_resource in ExportTraceServiceRequest.FromString(request.body).resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield Span(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.trace_state,
                    span.status.code == 2,
                    of_scope.scope.name,
                    resource,
                    _attributes(span.attributes),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
