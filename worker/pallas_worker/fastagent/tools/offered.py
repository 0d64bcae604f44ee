"""Tools as providers take them: names of letters, digits, `_` and `-`, and schemas that strict ones accept.

MCP allows more than providers do, and one tool that a provider refuses fails every request of its agent. So models are
told of tools under names that can be sent, and their calls have the tools' own names again; that is so at the edge to
the provider alone. What a tool takes is still for its server to check.

Knows fast-agent's LLMs from inside; must not know servers.
"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from fast_agent.llm.fastagent_llm import FastAgentLLM

from pallas_common.logs.setup import get_logger
from pallas_common.problems import quoted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from fast_agent.types import PromptMessageExtended, RequestParams
    from mcp import Tool

    type Generate = Callable[..., Awaitable[PromptMessageExtended]]

LONGEST = 64
"""Characters of a name."""
DEEPEST = 60
"""Levels of a schema."""
MOST_WARNINGS = 1_000
"""Tools that are warned of, each once."""

_USABLE = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST}}}")
_DIGITS = 8
_BRANCHES = ("allOf", "anyOf", "oneOf")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose values have schemas by names."""
_DATA = ("const", "enum", "default", "examples")
"""Keywords whose values are no schemas."""

_log = get_logger("pallas.worker.fastagent")
_warned: set[tuple[str, str]] = set()


class Offer(NamedTuple):
    """The tools of a request, and what their calls mean."""

    tools: list[Tool]
    own: Mapping[str, str]
    """Offered name → the tool's own, of those that differ."""


class UnusableSchemaError(Exception):
    """A tool's schema cannot be sent. The text says why."""


def offer_tools() -> None:
    """Let all LLMs of this process be told of tools so; again, it does nothing more."""
    own = vars(FastAgentLLM)["generate"]
    if not hasattr(own, "__wrapped__"):
        FastAgentLLM.generate = _offering(own)  # type: ignore[method-assign, assignment]


def _offering(own: Generate) -> Generate:
    @functools.wraps(own)
    async def generate(
        llm: Any,
        messages: list[PromptMessageExtended],
        request_params: RequestParams | None = None,
        tools: list[Tool] | None = None,
    ) -> PromptMessageExtended:
        if not tools:
            return await own(llm, _as_offered(messages), request_params, tools)
        offer = offer_of(tools)
        answer = await own(llm, _as_offered(messages), request_params, offer.tools)
        for call in (answer.tool_calls or {}).values() if offer.own else ():
            call.params.name = offer.own.get(call.params.name, call.params.name)
        return answer

    return generate


def offer_of(tools: Sequence[Tool]) -> Offer:
    """Say by which names and schemas a provider is told of these; what it cannot be told of is warned of."""
    offered: list[Tool] = []
    own: dict[str, str] = {}
    usable = {tool.name for tool in tools if offered_name(tool.name) == tool.name}
    taken: set[str] = set()
    for tool in tools:
        name = offered_name(tool.name)
        if name in taken or (name != tool.name and name in usable):
            _warn(tool.name, f"another tool is called {name} there")
            continue
        try:
            schema = complete(tool.input_schema)
        except UnusableSchemaError as error:
            _warn(tool.name, str(error))
            continue
        taken.add(name)
        if name != tool.name:
            own[name] = tool.name
        if name != tool.name or schema is not tool.input_schema:
            tool = tool.model_copy(update={"name": name, "input_schema": schema})
        offered.append(tool)
    return Offer(offered, own)


def _warn(tool: str, why: str) -> None:
    if (tool, why) not in _warned and len(_warned) < MOST_WARNINGS:
        _warned.add((tool, why))
        _log.warning(f"the tool {quoted(tool, 200)} is left out: {why}")


def _as_offered(messages: list[PromptMessageExtended]) -> list[PromptMessageExtended]:
    """The conversation with its calls under the names that the model knows; the same objects where nothing differs."""
    return [
        message.model_copy(
            update={
                "tool_calls": {
                    id_: call.model_copy(
                        update={
                            "params": call.params.model_copy(update={"name": offered_name(call.params.name)})
                        }
                    )
                    for id_, call in message.tool_calls.items()
                }
            }
        )
        if message.tool_calls
        and any(_USABLE.fullmatch(call.params.name) is None for call in message.tool_calls.values())
        else message
        for message in messages
    ]


def offered_name(name: str) -> str:
    """Name a tool so that providers take it: as it is, or else what can be kept of that, and a digest of it."""
    if _USABLE.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    kept = re.sub(r"[^A-Za-z0-9_-]", "_", name[: LONGEST - _DIGITS - 1])
    return f"{kept}_{digest}"


def complete(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make a tool's schema one of an object with properties, whose arrays have items; the same object if it is.

    Raises:
        UnusableSchemaError: it is too deep, or refers to another document.
    """
    found = _complete(schema, 0)
    changed = found is not schema
    root = dict(found)
    if root.get("type") != "object":
        root["type"], changed = "object", True
    if not isinstance(root.get("properties"), dict):
        root["properties"], changed = {}, True
    for keyword in _BRANCHES:  # which no provider takes at the top
        branches = root.pop(keyword, None)
        if branches is None:
            continue
        changed = True
        for branch in branches if isinstance(branches, list) else ():
            if isinstance(branch, dict) and isinstance(branch.get("properties"), dict):
                root["properties"] = {**branch["properties"], **root["properties"]}
    return root if changed else schema


def _complete(node: Any, depth: int) -> Any:
    """The same of a schema within; the same object where nothing changes."""
    if isinstance(node, list):
        listed = [_complete(each, depth + 1) for each in node]
        return listed if any(new is not old for new, old in zip(listed, node, strict=True)) else node
    if not isinstance(node, dict):
        return node
    if depth > DEEPEST:
        raise UnusableSchemaError(f"its schema has more than {DEEPEST} levels")
    reference = node.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#"):
        raise UnusableSchemaError("its schema refers to another document")
    found: dict[str, Any] = {}
    for key, value in node.items():
        if key == "$schema":
            continue
        if key in _NAMED and isinstance(value, dict):
            named = {name: _complete(each, depth + 1) for name, each in value.items()}
            found[key] = named if any(named[name] is not value[name] for name in value) else value
        else:
            found[key] = value if key in _DATA else _complete(value, depth + 1)
    kind = node.get("type")
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and not (
        isinstance(found.get("items"), dict | bool) or "prefixItems" in found
    ):
        found["items"] = {}
    same = found.keys() == node.keys() and all(found[key] is node[key] for key in node)
    return node if same else found
