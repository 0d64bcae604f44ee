"""Requests of OpenAI's two APIs sent with less work, where their messages are plain JSON.

The SDK goes through all messages by the hints of their types, for file names and dates that messages do not have: some
100 µs for each, in which the loop stands, before each request of a turn. With 10,000 messages that was 4 of 5 s of
chat completions, 6 of 7 s of Responses. Anthropic's SDK does no such thing where fast-agent asks it.

Knows the SDK's requests; must not know calls.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from pallas_common.logs.setup import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    type Transform = Callable[[Any, Any], Awaitable[Any]]

_PROVIDERS = "fast_agent.llm.provider.openai"
_REQUESTS = (
    (f"{_PROVIDERS}.llm_openai", "openai.resources.chat.completions.completions", "messages"),
    (f"{_PROVIDERS}.responses", "openai.resources.responses.responses", "input"),
)
"""The module that is loaded where a provider is used; that which makes its requests; and where their messages are."""
_NAME = "async_maybe_transform"

_log = get_logger("pallas.worker.fastagent")


def lighten_requests() -> None:
    """Let the SDK send its requests so, of those providers that are loaded."""
    for loaded_where_used, name, field in _REQUESTS:
        if loaded_where_used not in sys.modules:
            continue
        module = importlib.import_module(name)  # else the first call would do so
        own = getattr(module, _NAME, None)
        if own is None:
            _log.warning(f"{name}.{_NAME} has moved: long conversations take longer")
        elif not hasattr(own, "pallas_own"):
            setattr(module, _NAME, lighter(own, field))


def lighter(own: Transform, field: str) -> Transform:
    """The SDK's function, which leaves messages that are plain JSON as they are; they are in this field."""

    async def transform(data: Any, expected: Any) -> Any:
        messages = data.get(field) if type(data) is dict else None
        if type(messages) is not list or not _is_plain(messages):
            return await own(data, expected)
        body = await own({**data, field: []}, expected)  # which keeps their place
        return {**body, field: messages}

    transform.pallas_own = own  # type: ignore[attr-defined]
    return transform


def _is_plain(value: object) -> bool:
    """Whether it is JSON as it stands: no models, and nothing that was not given."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind is dict:
            waiting += each.values()  # type: ignore[attr-defined]
        elif kind is list:
            waiting += each  # type: ignore[arg-type]
        elif kind not in _PLAIN:
            return False
    return True


_PLAIN = frozenset((str, int, float, bool, type(None)))
