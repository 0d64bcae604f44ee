"""A chat-completions request: OpenAI's fields, and those that an agent has besides, all checked.

Pure. Knows names, types and who may set what; must not know HTTP, and leaves sampling parameters to `parameters`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pallas_common.problems import kind_of, quoted
from pallas_common.protocol.agent.parameters import PARAMETERS
from pallas_worker.interface.chat.conversation import conversation_of
from pallas_worker.interface.chat.defaults import said_in
from pallas_worker.interface.chat.fields import mapping, only, optional_text, patterns, text, truth
from pallas_worker.interface.chat.response_format import response_format
from pallas_worker.interface.errors import ForbiddenError, refuse
from pallas_worker.interface.parameters import parse_parameters
from pallas_worker.interface.turn import TurnRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPENAI = (
    "model",
    "messages",
    "stream",
    "stream_options",
    "n",
    "user",
    "metadata",
    "store",
    "tools",
    "functions",
    "function_call",
    "response_format",
)
_OWN = ("system_append", "tools_allowlist")
OVERRIDES = ("system_override", "model_override", "extra", "hold", "resume")
"""Fields that count only with the worker's key, or where the agent says `overrides: true`."""

FIELDS = (*_OPENAI, *PARAMETERS, *_OWN, *OVERRIDES)
"""All fields of a request."""

MAX_METADATA = 16
"""Entries of `metadata`, as OpenAI has it."""


class Delivery(NamedTuple):
    """How the answer is wanted, as far as that can be read."""

    stream: bool
    include_usage: bool


class ChatRequest(NamedTuple):
    """A checked request."""

    turn: TurnRequest
    ignored: tuple[str, ...] = ()
    """What it says that nobody reads."""


def delivery_of(body: Mapping[str, object]) -> Delivery:
    """How the answer is wanted; a request that says it wrongly is refused by `parse_chat`, as a whole answer."""
    options = body.get("stream_options")
    stream = body.get("stream") is True
    return Delivery(stream, stream and isinstance(options, dict) and options.get("include_usage") is True)


def parse_chat(
    body: Mapping[str, object],
    *,
    agent: str,
    may_override: bool,
    output: Mapping[str, object] | None = None,
) -> ChatRequest:
    """The turn that a request asks for. `model` was compared with the agent's name already, if it is a string.

    Args:
        agent: the agent's name.
        may_override: the caller may use the fields of `OVERRIDES`.
        output: the agent's own `output_schema`.

    Raises:
        ForbiddenError: a field is not for this caller.
        ArgumentError: a field is missing, unknown or malformed; its place is `field`.
    """
    only(body, FIELDS)
    if body.get("model") is None:
        refuse("model", f"is required: the agent's name, {quoted(agent)}")
    text(body["model"], "model")
    _check_rights(body, may_override=may_override)
    _check_fixed(body)
    resume = truth(body, "resume")
    said = conversation_of(body.get("messages"), resume=resume)
    ignored = list(said.ignored)
    conversation_id = _conversation_id(body, ignored)
    if body.get("store"):
        ignored.append("store")
    allowed = patterns(body, "tools_allowlist")
    append = optional_text(body, "system_append")
    turn = TurnRequest(
        message=said.message,
        images=said.images,
        history=said.history,
        conversation_id=conversation_id,
        parameters=parse_parameters(_parameters(body)),
        system_append="\n\n".join(filter(None, (*said.system, append))),
        system_override=optional_text(body, "system_override"),
        model_override=optional_text(body, "model_override"),
        tools_allowlist=None if allowed is None else frozenset(allowed),
        hold=patterns(body, "hold") or (),
        output=response_format(body, output),
        said=said_in(body),
        resume=resume,
    )
    return ChatRequest(turn, tuple(ignored))


def _check_rights(body: Mapping[str, object], *, may_override: bool) -> None:
    for name in OVERRIDES:
        if body.get(name) is not None and not may_override:
            raise ForbiddenError(
                f"{name}: is not for this caller; send the worker's key in the header Pallas-Key, or set "
                "`overrides: true` for the agent in agents.yaml",
                name,
            )


def _check_fixed(body: Mapping[str, object]) -> None:
    """Refuse what an agent does not offer, and what is malformed of what only the delivery goes by."""
    for name in ("tools", "functions", "function_call"):
        if body.get(name):
            refuse(name, "an agent has tools of its own and calls them itself; remove it")
    number = body.get("n")
    if number is not None and (isinstance(number, bool) or number != 1):
        refuse("n", "must be 1: an agent gives one answer")
    stream = truth(body, "stream")
    options = mapping(body, "stream_options")
    only(options, ("include_usage", "include_obfuscation"), "stream_options")
    for name in options:
        truth(options, name, f"stream_options.{name}")
    if options and not stream:
        refuse("stream_options", "is for streams; set stream to true, or remove it")


def _conversation_id(body: Mapping[str, object], ignored: list[str]) -> str | None:
    """What log records and the trace of the turn bear: `metadata.conversation_id`, or else `user`."""
    user = optional_text(body, "user")
    metadata = mapping(body, "metadata")
    if len(metadata) > MAX_METADATA:
        refuse("metadata", f"has {len(metadata)} entries; {MAX_METADATA} are allowed")
    for name, value in metadata.items():
        if not isinstance(value, str):
            refuse(f"metadata.{name[:60]}", f"must be a string, not {kind_of(value)}")
    if metadata.keys() - {"conversation_id"}:
        ignored.append("metadata")
    return optional_text(metadata, "conversation_id") or user


def _parameters(body: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in body.items() if name in PARAMETERS or name == "extra"}
