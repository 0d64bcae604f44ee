"""OpenAI chat requests sent with less work, where their messages are plain JSON.

The SDK goes through all messages by the hints of their types, for file names and dates that messages do not have: some
100 µs for each, in which the loop stands, before each request of a turn. With 10,000 messages that was 4 of 5 s.

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

_LOADED_WHERE_USED = "fast_agent.llm.provider.openai.llm_openai"
_MODULE = "openai.resources.chat.completions.completions"
_NAME = "async_maybe_transform"

_log = get_logger("pallas.worker.fastagent")


def lighten_chat_requests() -> None:
    """Let the SDK send its chat requests so; does nothing where that provider is not loaded."""
    if _LOADED_WHERE_USED not in sys.modules:
        return
    module = importlib.import_module(_MODULE)  # else the first call would do so
    own = getattr(module, _NAME, None)
    if own is None:
        _log.warning(f"{_MODULE}.{_NAME} has moved: long conversations take longer")
    elif not hasattr(own, "pallas_own"):
        setattr(module, _NAME, lighter(own))


def lighter(own: Transform) -> Transform:
    """The SDK's function, which leaves messages that are plain JSON as they are."""

    async def transform(data: Any, expected: Any) -> Any:
        messages = data.get("messages") if type(data) is dict else None
        if type(messages) is not list or not _is_plain(messages):
            return await own(data, expected)
        body = await own({**data, "messages": []}, expected)  # which keeps their place
        return {**body, "messages": messages}

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
