"""What of a span leaves the process: no secret, and nothing of what was said unless that was asked for.

Pure; knows attributes by name and text by value, nothing of exporters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Link, Status

from pallas_common.secrets.patterns import REDACTED, is_secret_name
from pallas_common.secrets.shortening import without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.util.types import Attributes

    from pallas_common.secrets.values import KnownSecrets

LONGEST_NAME = 200
"""Characters of a span's name: it may hold what a client calls a tool."""

LONGEST_VALUE = 64 * 1024
"""Characters of a text in a span; of a longer one the middle is left out."""

_MAY_BE_CONTENT = ("gen_ai.", "llm.", "traceloop.", "input.", "output.", "exception.", "error.")
"""Namespaces in which texts may quote a prompt, an answer, or what a tool was given and gave."""

_NEVER_CONTENT = frozenset(
    {
        "error.type",
        "exception.type",
        "gen_ai.agent.id",
        "gen_ai.agent.name",
        "gen_ai.conversation.id",
        "gen_ai.operation.name",
        "gen_ai.output.type",
        "gen_ai.prompt.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.request.reasoning_effort",
        "gen_ai.response.finish_reasons",
        "gen_ai.response.id",
        "gen_ai.response.model",
        "gen_ai.system",
        "gen_ai.tool.name",
        "gen_ai.tool.type",
        "llm.request.type",
    }
)
"""Texts of those namespaces that are names; all others stay here. Numbers may always leave."""


def presentable(span: ReadableSpan, secrets: KnownSecrets, *, content: bool) -> ReadableSpan:
    """The span as it may leave: secrets struck out; texts that may quote what was said only with `content`.

    Without `content`, a failure's message and traceback stay here, too: the log has them, under the same trace id.
    """

    def clean(attributes: Attributes) -> dict[str, Any]:
        return _clean(attributes or {}, secrets, content=content)

    status = span.status
    description = _clean_value(status.description, secrets) if content and status.description else None
    return ReadableSpan(
        name=without_secrets(span.name, LONGEST_VALUE, secrets)[:LONGEST_NAME],
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=clean(span.attributes),
        events=[Event(event.name, clean(event.attributes), event.timestamp) for event in span.events],
        links=[Link(link.context, clean(link.attributes)) for link in span.links],
        kind=span.kind,
        status=Status(status.status_code, description),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _clean(attributes: Mapping[str, Any], secrets: KnownSecrets, *, content: bool) -> dict[str, Any]:
    return {
        name: REDACTED if is_secret_name(name) and isinstance(value, str) else _clean_value(value, secrets)
        for name, value in attributes.items()
        if content or not _may_be_content(name, value)
    }


def _may_be_content(name: str, value: Any) -> bool:
    if not name.startswith(_MAY_BE_CONTENT) or name in _NEVER_CONTENT:
        return False
    return not isinstance(value, bool | int | float)


def _clean_value(value: Any, secrets: KnownSecrets) -> Any:
    if isinstance(value, str):
        return without_secrets(value, LONGEST_VALUE, secrets)
    if isinstance(value, list | tuple):
        return [_clean_value(item, secrets) for item in value]
    return value
