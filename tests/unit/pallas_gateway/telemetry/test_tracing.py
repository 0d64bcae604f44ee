"""Spans of the gateway: what they say of an agent that is asked, and what they never say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pallas_gateway.identity.principal import Principal
from pallas_gateway.telemetry import tracing

ADA = Principal(id="ada", name="Ada", role="human")
TRACE = "1" * 32


def test_an_agent_is_asked_in_the_trace_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracing", SimpleNamespace(tracer=provider.get_tracer("test")))
    headers = {"traceparent": f"00-{TRACE}-{'2' * 16}-01"}

    def fail() -> None:
        with tracing.agent_span("chat", ADA, "jarvis", headers) as span:
            assert tracing.outbound_headers()["traceparent"].startswith(f"00-{TRACE}-")
            tracing.set_outcome(span, "error")
            raise ValueError("a secret that nobody is to see")

    with pytest.raises(ValueError, match="a secret"):
        fail()
    assert tracing.trace_id({}) is None, "what comes afterwards has another trace"
    [seen] = exporter.get_finished_spans()
    assert (seen.name, seen.attributes) == (
        "chat",
        {
            "pallas.agent": "jarvis",
            "mcp.tenant_id": "default",
            "mcp.user_id": "ada",
            "pallas.outcome": "error",
        },
    )
    assert f"{seen.context.trace_id:032x}" == TRACE
    assert "secret" not in seen.to_json()
