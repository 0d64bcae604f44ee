"""The arguments of tool calls as models write them: read once and strictly, whatever they are, and never an exception.

fast-agent reads them where it reads the answer: what is no JSON object fails the whole request there, which is then
made again and paid again. Here such a call stays a call, of which the guard makes an error result for the model.

Knows where fast-agent's providers read arguments; must not know why a call is refused or held.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
import uuid
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolRequest, CallToolRequestParams

from pallas_common.http.json_bounds import whole_text
from pallas_common.logs.setup import get_logger
from pallas_common.problems import quoted
from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.tool_calls import MAX_ARGUMENTS, MAX_CALLS, MAX_NAME, parse_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = get_logger("pallas.worker.fastagent")

_UNREAD = "\x00unread"
"""The key under which a text that is no object stands until `readable` finds it: no other arguments have it."""
_SHOWN = 200
"""Characters of such a text that are repeated to the model: its history has an empty object in its place."""


class UnreadableCall(CallToolRequest):
    """A call whose arguments are no JSON object within bounds: it does not run."""

    reason: str
    """Why, in words for the model."""


def readable(calls: Mapping[str, CallToolRequest]) -> dict[str, CallToolRequest]:
    """The calls of one message as they can be kept and sent again.

    Names and ids are printable and of a length that a history may have; arguments are a JSON object, an empty one where
    the model gave none that can be read: then the call is an `UnreadableCall`. There are `MAX_CALLS` at most.
    """
    if len(calls) > MAX_CALLS:
        _log.warning(
            f"a model asked for {len(calls)} tool calls in one message: the first {MAX_CALLS} are taken up"
        )
    return {_id(id_): _readable(call) for id_, call in [*calls.items()][:MAX_CALLS]}


def _readable(call: CallToolRequest) -> CallToolRequest:
    name = _printable(call.params.name) or "unnamed"
    arguments = call.params.arguments or {}
    unread = arguments.get(_UNREAD)
    try:
        read = parse_arguments(unread if isinstance(unread, str) else json.dumps(arguments))
    except (ArgumentError, TypeError, ValueError, RecursionError) as error:
        text = unread if isinstance(unread, str) else ""
        began = f" They began with {quoted(whole_text(text[:_SHOWN]))}." if text else ""
        reason = (
            f"This call did not run, because its arguments cannot be read: {error}.{began} "
            "Call the tool again, with one JSON object as its arguments."
        )
        params = CallToolRequestParams(name=name, arguments={})
        return UnreadableCall(method="tools/call", params=params, reason=reason)
    if name == call.params.name and read == call.params.arguments:
        return call
    return call.model_copy(
        update={"params": call.params.model_copy(update={"name": name, "arguments": read})}
    )


def _id(said: str) -> str:
    return _printable(said) or _new_id()


def _new_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


def _printable(text: str) -> str:
    whole = whole_text(text[:MAX_NAME])
    return whole if whole.isprintable() else "".join(each if each.isprintable() else "_" for each in whole)


def _read(text: object) -> dict[str, Any]:
    """What a model wrote; where that is no object, the text itself, under `_UNREAD`."""
    if not isinstance(text, str):
        return text if isinstance(text, dict) else {_UNREAD: json.dumps(text)}
    try:
        return parse_arguments(text)
    except ArgumentError:
        return {_UNREAD: text[: MAX_ARGUMENTS + 1]}


def read_leniently() -> None:
    """Let the providers that are loaded read arguments here; again, it does nothing more."""
    for module, replace in _READERS.items():
        if module in sys.modules and module not in _read_here:
            _read_here.add(module)
            try:
                replace(importlib.import_module(module))
            except AttributeError as error:
                _log.warning(f"{module} has moved ({error}): a model's wrong arguments fail its call")


_read_here: set[str] = set()


def _in_chat(module: Any) -> None:
    def requested(tool_calls: Any) -> dict[str, CallToolRequest]:
        found: dict[str, CallToolRequest] = {}
        for call in tool_calls:
            id_ = call.id if isinstance(call.id, str) and call.id and call.id not in found else _new_id()
            params = CallToolRequestParams(
                name=call.function.name or "", arguments=_read(call.function.arguments or "")
            )
            found[id_] = CallToolRequest(method="tools/call", params=params)
        return found

    _replace(module.OpenAILLM, "_openai_requested_tool_calls", staticmethod(requested))


def _in_responses(module: Any) -> None:
    owner = module.ResponsesOutputMixin
    own = owner._tool_call_arguments  # noqa: SLF001 - here fast-agent's private names may be used

    def arguments(item: Any, *, item_type: str) -> dict[str, Any]:
        if item_type == "custom_tool_call":
            return own(item, item_type=item_type)  # type: ignore[no-any-return]
        return _read(getattr(item, "arguments", None) or "")

    _replace(owner, "_tool_call_arguments", staticmethod(arguments))


def _in_anthropic(_: Any) -> None:
    streaming = importlib.import_module(_ANTHROPIC_STREAMS)
    own = streaming.accumulate_event

    @functools.wraps(own)
    def accumulate_event(*, event: Any, current_snapshot: Any, json_bufs: dict[int, Any], **more: Any) -> Any:
        kind = getattr(event, "type", None)
        block: Any = None
        if current_snapshot is not None and kind in ("content_block_delta", "content_block_stop"):
            block = current_snapshot.content[event.index]
        if getattr(block, "type", None) == "tool_use":
            if kind == "content_block_stop":
                text = json_bufs.get(event.index)
                block.input = _read(block.input if text is None else text.decode(errors="surrogatepass"))
            elif event.delta.type == "input_json_delta":
                text = json_bufs.setdefault(event.index, bytearray())
                if len(text) <= 4 * MAX_ARGUMENTS:  # UTF-8 has no longer characters
                    text += event.delta.partial_json.encode(errors="surrogatepass")
                return current_snapshot
        return own(event=event, current_snapshot=current_snapshot, json_bufs=json_bufs, **more)

    _replace(streaming, "accumulate_event", accumulate_event)


def _replace(owner: Any, name: str, by: Any) -> None:
    getattr(owner, name)  # which fails where it has moved
    setattr(owner, name, by)


_ANTHROPIC_STREAMS = "anthropic.lib.streaming._beta_messages"
_PROVIDERS = "fast_agent.llm.provider"
_READERS: Mapping[str, Callable[[Any], None]] = {
    f"{_PROVIDERS}.openai.llm_openai": _in_chat,
    f"{_PROVIDERS}.openai.responses_output": _in_responses,
    f"{_PROVIDERS}.anthropic.llm_anthropic": _in_anthropic,
}
"""The modules that read arguments, which are loaded where a provider is used. Others, and what these make of arguments
that are no text, are seen by `readable` alone."""
