"""Copies of messages and of parameters, equal to those that pydantic and fast-agent make, with less work.

Knows fast-agent's public models; must not know who copies them: `shortcuts` puts these functions in their places.
"""

from __future__ import annotations

import copy
from datetime import datetime
from enum import Enum
from types import NoneType
from typing import TYPE_CHECKING, Any

from fast_agent.config import MCPServerSettings
from fast_agent.types import PromptMessageExtended, RequestParams
from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, TextContent, Tool

if TYPE_CHECKING:
    from pydantic import BaseModel

COPIED: frozenset[type[BaseModel]] = frozenset(
    {
        PromptMessageExtended,
        RequestParams,
        MCPServerSettings,
        Tool,
        TextContent,
        CallToolRequest,
        CallToolRequestParams,
        CallToolResult,
    }
)
"""The models that are copied in each call."""

_ATOMIC = frozenset({NoneType, str, int, float, bool, bytes, datetime})


def deepcopy[M: BaseModel](model: M, memo: dict[int, Any] | None = None) -> M:
    """What pydantic's `__deepcopy__` does, except that what JSON is made of is not sent through `copy.deepcopy`.

    fast-agent copies each message of a conversation several times in each turn.
    """
    memo = {} if memo is None else memo
    copied = type(model).__new__(type(model))
    for slot in ("__dict__", "__pydantic_extra__", "__pydantic_private__"):
        values = getattr(model, slot)
        copies = None if values is None else {name: _copied(value, memo) for name, value in values.items()}
        object.__setattr__(copied, slot, copies)
    object.__setattr__(copied, "__pydantic_fields_set__", set(model.__pydantic_fields_set__))
    return copied


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    kind = type(value)
    if kind in _ATOMIC or isinstance(value, Enum):
        return value
    if kind is list:
        return [_copied(entry, memo) for entry in value]
    if kind is dict:
        return {key: _copied(entry, memo) for key, entry in value.items()}
    if kind in COPIED:
        return deepcopy(value, memo)
    return copy.deepcopy(value, memo)


def merged_plainly(defaults: RequestParams, given: RequestParams) -> RequestParams | None:
    """`defaults` overridden by what is set in `given`; None where that would mean merging within a value.

    fast-agent asks for the same parameters a dozen times in each call, and makes JSON of all of them for it.
    """
    overrides = {name: vars(given)[name] for name in given.model_fields_set if name != "messages"}
    result = defaults.model_copy(update=overrides)
    for name, value in vars(result).items():
        if type(value) not in _ATOMIC and name != "tool_execution_handler":
            if value or vars(defaults)[name]:
                return None
            vars(result)[name] = copy.copy(value)
    automatic = "streaming_timeout" not in result.model_fields_set
    # As after a dump of all fields: `messages` is left out of it, and a time-out that nobody chose is not chosen by it.
    result.model_fields_set.update(RequestParams.model_fields)
    result.model_fields_set.difference_update(
        {"messages", "streaming_timeout"} if automatic else {"messages"}
    )
    return result
