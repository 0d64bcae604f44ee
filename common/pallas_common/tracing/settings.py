"""Whether a process traces, and how: what the standard OTEL_* variables say to Pallas.

Pure; knows nothing of spans. What is not read here, the OpenTelemetry SDK reads itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOL = "http/protobuf"
"""The only protocol of OTLP that is spoken."""

_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CONTENT_ON_SPANS = ("true", "span_only", "span_and_event")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingSettings:
    """What the environment asks for."""

    on: bool
    endpoint: str = ""
    """Where traces go, without credentials: for people."""
    content: bool = False
    """Whether spans may hold what was said, asked and answered."""
    problem: str = ""
    """Why tracing is off although it was asked for; for people."""


def tracing_settings(environ: Mapping[str, str]) -> TracingSettings:
    """Tracing is on once an OTLP endpoint or the exporter `otlp` is named, unless the SDK is disabled.

    An environment that cannot be followed turns it off and says why: tracing never keeps anything from starting.
    """
    if _said(environ, "OTEL_SDK_DISABLED") == "true":
        return TracingSettings(on=False)
    exporters = {name.strip() for name in _said(environ, "OTEL_TRACES_EXPORTER").split(",")} - {""}
    traces = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
    endpoint = traces or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    if exporters == {"none"} or not (exporters or endpoint):
        return TracingSettings(on=False)
    problem = _problem(environ, exporters, endpoint)
    return TracingSettings(
        on=not problem,
        endpoint=_without_credentials(endpoint or "http://localhost:4318"),
        content=_said(environ, _CONTENT) in _CONTENT_ON_SPANS,
        problem=problem,
    )


def _problem(environ: Mapping[str, str], exporters: set[str], endpoint: str) -> str:
    if strange := exporters - {"otlp"}:
        return f"OTEL_TRACES_EXPORTER is {','.join(sorted(strange))}; set it to otlp or none"
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = _said(environ, variable)
        if protocol and protocol != PROTOCOL:
            return f"{variable} is {protocol}; set it to {PROTOCOL}, and the endpoint accordingly"
        if protocol:
            break
    try:
        parts = urlsplit(endpoint or "http://localhost")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        return f"the OTLP endpoint {_without_credentials(endpoint)!r} is no URL like http://collector:4318"
    return ""


def _said(environ: Mapping[str, str], variable: str) -> str:
    return environ.get(variable, "").strip().lower()


def _without_credentials(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path.partition('?')[0]}"
