"""The conversation's id on every log record that is made inside its call, by whomever, and on the call's trace span.

Knows logging, structlog's context and OpenTelemetry; must not know what a call does. The id goes nowhere else.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING

import structlog
from opentelemetry import trace

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

FIELD = "conversation_id"
"""Its name in records and spans."""
LENGTH = 200
"""Characters that are kept of it: it is the client's, and may be of any length."""


def bound(conversation_id: str | None) -> AbstractContextManager[object]:
    """Inside the block, and in tasks that are made there, log records carry the id; the current span does at once."""
    if conversation_id is None:
        return nullcontext()
    kept = conversation_id[:LENGTH]
    trace.get_current_span().set_attribute(FIELD, kept)
    return structlog.contextvars.bound_contextvars(**{FIELD: kept})


class ConversationFilter(logging.Filter):
    """For a handler: gives records of plain logging the id that structlog's loggers give to theirs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass; one that says an id of its own keeps it."""
        if FIELD not in record.__dict__:
            conversation = structlog.contextvars.get_contextvars().get(FIELD)
            if conversation is not None:
                record.__dict__[FIELD] = conversation
        return True
