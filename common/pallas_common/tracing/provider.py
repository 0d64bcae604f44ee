"""The tracer provider of a process: batches of spans to an OTLP collector, which never holds the process up.

Knows the OpenTelemetry SDK, and is imported only where tracing is on: it takes time and memory. It starts a thread:
never to be opened in a process that forks others.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from pallas_common.logs.setup import get_logger
from pallas_common.tracing.privacy import presentable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from pallas_common.secrets.values import KnownSecrets
    from pallas_common.tracing.settings import TracingSettings

FLUSH_TIMEOUT = 1.0
"""Seconds that the last spans may take."""
FLUSH_TIMEOUT_FAILING = 0.1
"""The same for a collector that has not taken the ones before."""

_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"

_log = get_logger("pallas.tracing")


class Tracing:
    """Tracing of this process, from now on."""

    def __init__(
        self, settings: TracingSettings, resource: Mapping[str, str | int], secrets: KnownSecrets
    ) -> None:
        """Become the process's tracer provider.

        Args:
            settings: of the environment, with `on`; the SDK reads the rest of it.
            resource: attributes of this process; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over them.
            secrets: are in no span.

        Raises:
            ValueError: the environment says what the SDK cannot do.
        """
        self._exporter = _Exporter(settings.endpoint)
        described = {**resource, **OTELResourceDetector().detect().attributes}
        self._provider = TracerProvider(resource=Resource.create(described), shutdown_on_exit=False)
        processor = _Processor(self._exporter, secrets, content=settings.content)
        self._provider.add_span_processor(processor)
        trace.set_tracer_provider(self._provider)
        self.tracer = self._provider.get_tracer("pallas")

    @property
    def provider(self) -> TracerProvider:
        """For instrumentations of libraries."""
        return self._provider

    def close(self) -> None:
        """Send what is left, for `FLUSH_TIMEOUT` at most; spans that end later are dropped."""
        thread = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        thread.start()
        thread.join(FLUSH_TIMEOUT_FAILING if self._exporter.failing else FLUSH_TIMEOUT)


class _Processor(BatchSpanProcessor):
    """Takes what is private out of a span as soon as it ends: only then is its call's token still known."""

    def __init__(self, exporter: SpanExporter, secrets: KnownSecrets, *, content: bool) -> None:
        super().__init__(exporter)
        self._secrets = secrets
        self._content = content

    def on_end(self, span: ReadableSpan) -> None:
        """Queue the span; never waits, and never raises into what was traced."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        try:
            public = presentable(span, self._secrets, content=self._content)
        except Exception as error:  # noqa: BLE001 - the attributes are a library's
            _log.debug("a span is left out: %s", error)
        else:
            super().on_end(public)


class _Exporter(SpanExporter):
    """OTLP's exporter, except that a failure is logged once and not for every batch."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._reason = _Reason()
        logging.getLogger(_EXPORTER).addFilter(self._reason)
        self._inner = OTLPSpanExporter()
        self.failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch; in the processor's thread."""
        result = self._inner.export(spans)
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self.failing:
            _log.warning("traces are lost: %s does not take them (%s)", self._endpoint, self._reason.last)
        elif self.failing and not failing:
            _log.info("traces are taken by %s again", self._endpoint)
        self.failing = failing
        return result

    def shutdown(self) -> None:
        """Give up what is under way."""
        self._inner.shutdown()  # type: ignore[no-untyped-call]  # its library gives it no types

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return True


class _Reason(logging.Filter):
    """Keeps the exporter's own records to itself, and remembers the last one."""

    last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        self.last = record.getMessage()
        return False


def open_tracing(
    settings: TracingSettings, resource: Mapping[str, str | int], secrets: KnownSecrets
) -> Tracing | None:
    """Tracing of this process, or None if it cannot be had; then a warning says why."""
    try:
        tracing = Tracing(settings, {**resource, "process.pid": os.getpid()}, secrets)
    except Exception as error:  # noqa: BLE001 - whatever it is, tracing keeps nothing from starting
        _log.warning("tracing is off: %s", error)
        return None
    _log.info("traces go to %s", settings.endpoint)
    return tracing
