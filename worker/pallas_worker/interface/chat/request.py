"""A chat-completions request: OpenAI's fields, and those that an agent has besides, all checked.

Pure. Knows names, types and who may set what; must not know HTTP, and leaves sampling parameters to `parameters`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pallas_common.problems import quoted
from pallas_common.protocol.agent.completion import named, overriding, read_fields
from pallas_common.protocol.agent.parameters import PARAMETERS, ParameterError
from pallas_worker.interface.chat.conversation import conversation_of
from pallas_worker.interface.chat.defaults import said_in
from pallas_worker.interface.chat.fields import left_out, mapping, optional_text, patterns, text, truth
from pallas_worker.interface.chat.response_format import response_format
from pallas_worker.interface.errors import ForbiddenError, refuse
from pallas_worker.interface.parameters import parse_parameters
from pallas_worker.interface.turn import TurnRequest

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        may_override: the caller may use the fields of `completion.OVERRIDES`.
        output: the agent's own `output_schema`.

    Raises:
        ForbiddenError: a field is not for this caller.
        ArgumentError: a field is missing or malformed, or asks for what an agent does not give; its place is `field`.
    """
    try:
        body, unknown = read_fields(body)
    except ParameterError as error:
        refuse(error.field, error.complaint)
    if body.get("model") is None:
        refuse("model", f"is required: the agent's name, {quoted(agent)}")
    text(body["model"], "model")
    _check_rights(body, may_override=may_override)
    resume = truth(body, "resume")
    said = conversation_of(body.get("messages"), resume=resume)
    ignored = [*unknown, *said.ignored, *_delivery_ignored(body)]
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
    return ChatRequest(turn, named(ignored))


def _check_rights(body: Mapping[str, object], *, may_override: bool) -> None:
    if not may_override and (name := overriding(body)) is not None:
        raise ForbiddenError(
            f"{name}: is not for this caller; send the worker's key in the header Pallas-Key, or set "
            "`overrides: true` for the agent in agents.yaml",
            name,
        )


def _delivery_ignored(body: Mapping[str, object]) -> list[str]:
    """Check what only the delivery goes by; return what nobody reads of it."""
    truth(body, "stream")
    options = mapping(body, "stream_options")
    known = ("include_usage", "include_obfuscation")
    for name in known:
        truth(options, name, f"stream_options.{name}")
    return left_out(options, known, "stream_options")


def _conversation_id(body: Mapping[str, object], ignored: list[str]) -> str | None:
    """What log records and the trace of the turn bear: `metadata.conversation_id`, or else `user`."""
    user, metadata = body.get("user"), body.get("metadata")
    if user and not isinstance(user, str):
        ignored.append("user")
    own = metadata.get("conversation_id") if isinstance(metadata, dict) else None
    if metadata and (not isinstance(metadata, dict) or not isinstance(own, str) or len(metadata) > 1):
        ignored.append("metadata")
    for said in (own, user):
        if said and isinstance(said, str):
            return said
    return None


def _parameters(body: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in body.items() if name in PARAMETERS or name == "extra"}
