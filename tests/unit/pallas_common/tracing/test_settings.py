"""Whether the environment asks for traces, and what leaves in a span."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Status, StatusCode

from pallas_common.secrets.values import KnownSecrets
from pallas_common.tracing.privacy import presentable
from pallas_common.tracing.settings import tracing_settings

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("environ", "on"),
    [
        ({}, False),
        ({ENDPOINT: "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector/v1/traces"}, True),
        ({ENDPOINT: ""}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", ENDPOINT: "http://collector:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", ENDPOINT: "http://collector:4318"}, False),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "otlp"}, False),
        ({"OTEL_SDK_DISABLED": "false", ENDPOINT: "http://collector:4318"}, True),
        ({ENDPOINT: "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
        (
            {
                ENDPOINT: "http://c:4318",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            },
            True,
        ),
    ],
)
def test_the_standard_variables_turn_it_on(environ: dict[str, str], on: bool) -> None:
    settings = tracing_settings(environ)
    assert (settings.on, settings.problem) == (on, "")


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is zipkin; set it to otlp or none"),
        (
            {ENDPOINT: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is grpc; set it to http/protobuf, and the endpoint accordingly",
        ),
        (
            {ENDPOINT: "collector:4318"},
            "the OTLP endpoint 'collector:4318' is no URL like http://collector:4318",
        ),
        (
            {ENDPOINT: "http://u:secret@c:99999/?key=s"},
            "the OTLP endpoint 'http://c:99999/' is no URL like http://collector:4318",
        ),
    ],
)
def test_what_cannot_be_followed_is_told_with_the_way_out(environ: dict[str, str], problem: str) -> None:
    settings = tracing_settings(environ)
    assert (settings.on, settings.problem) == (False, problem)


@pytest.mark.parametrize(
    ("value", "content"),
    [("true", True), ("SPAN_ONLY", True), ("span_and_event", True), ("event_only", False), ("", False)],
)
def test_content_is_asked_for_by_the_standard_variable(value: str, content: bool) -> None:
    environ = {ENDPOINT: "http://c:4318", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": value}
    assert tracing_settings(environ).content is content


ATTRIBUTES: dict[str, Any] = {
    "gen_ai.prompt.0.content": "said",
    "gen_ai.input.messages": ["said"],
    "gen_ai.something.new": "said",
    "exception.message": "said",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 7,
    "server_name": "argos of hunter2-hunter2",
    "http.header.authorization": "Bearer x",
    "list": ["hunter2-hunter2", 1],
}


def span() -> ReadableSpan:
    return ReadableSpan(
        "tools/call hunter2-hunter2 " + "x" * 500,
        attributes=ATTRIBUTES,
        events=[Event("exception", {"exception.type": "ValueError", "exception.message": "said"}, 5)],
        status=Status(StatusCode.ERROR, "said hunter2-hunter2"),
        start_time=1,
        end_time=2,
    )


def test_without_being_asked_for_nothing_that_was_said_leaves() -> None:
    public = presentable(span(), KnownSecrets(["hunter2-hunter2"]), content=False)
    assert public.attributes == {
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 7,
        "server_name": "argos of [redacted]",
        "http.header.authorization": "[redacted]",
        "list": ["[redacted]", 1],
    }
    assert [dict(event.attributes or {}) for event in public.events] == [{"exception.type": "ValueError"}]
    assert (public.status.status_code, public.status.description) == (StatusCode.ERROR, None)
    assert public.name.startswith("tools/call [redacted] xxx")
    assert len(public.name) == 200
    assert (public.start_time, public.end_time) == (1, 2)


def test_if_asked_for_it_leaves_without_secrets() -> None:
    public = presentable(span(), KnownSecrets(["hunter2-hunter2"]), content=True)
    assert public.attributes is not None
    assert public.attributes["gen_ai.prompt.0.content"] == "said"
    assert set(public.attributes) == set(ATTRIBUTES)
    assert public.status.description == "said [redacted]"
    assert "hunter2" not in str(public.attributes)
