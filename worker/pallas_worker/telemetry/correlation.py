"""What ties records and spans to their call: the conversation's id, the request's id and the trace's id.

Knows logging, structlog's context and OpenTelemetry's; must not know what a call does. The conversation's id goes
nowhere else.
"""

from __future__ import annotations

import logging
import re
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog
from opentelemetry import trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONVERSATION = "conversation_id"
REQUEST = "request_id"
TRACE = "trace_id"
"""Their names in records; the first is also the span's attribute."""
LENGTH = 200
"""Characters that are kept of a conversation's id: it is the client's, and may be of any length."""

_USABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


def request_id(headers: Mapping[str, str]) -> str:
    """The request's id: its `X-Request-Id`, or else a new one of 12 hex digits."""
    given = headers.get("x-request-id", "")
    return given if _USABLE.fullmatch(given) else secrets.token_hex(6)


@contextmanager
def bound(*, conversation: str | None = None, request: str | None = None) -> Iterator[None]:
    """Inside the block, and in tasks that are made there, log records carry these; None leaves what there is.

    The span that is current now gets the conversation's id as well.
    """
    ids: dict[str, str] = {}
    if request is not None:
        ids[REQUEST] = request
    if conversation is not None:
        ids[CONVERSATION] = conversation[:LENGTH]
        trace.get_current_span().set_attribute(CONVERSATION, ids[CONVERSATION])
    with structlog.contextvars.bound_contextvars(**ids):
        yield


class CorrelationFilter(logging.Filter):
    """For a handler: puts the ids of the call that is going on into every record, of whatever logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass; one that says an id of its own keeps it."""
        own = record.__dict__
        for name, value in structlog.contextvars.get_contextvars().items():
            own.setdefault(name, value)
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            own.setdefault(TRACE, trace.format_trace_id(context.trace_id))
        return True
