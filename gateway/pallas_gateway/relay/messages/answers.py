"""What servers answer over HTTP: one message, or an event stream of several; and how it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.problems import shortened
from pallas_control.mcp.errors import CallError
from pallas_control.mcp.event_stream import EventStream
from pallas_gateway.relay.http.errors import LateError, RelayError, WrongAnswerError
from pallas_gateway.relay.http.pool import LARGEST_ANSWER
from pallas_gateway.relay.messages import adapting
from pallas_gateway.relay.messages.model import Answer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pallas_gateway.relay.http.connection import Response
    from pallas_gateway.relay.messages.model import Call, Json

TIMED_OUT = -32955
NOT_ANSWERED = -32603
_ENDLESS = 1 << 62
_CHARACTERS = 300
_REFUSALS = {401: "it wants credentials", 403: "it does not accept the credentials"}
"""What statuses mean that come without words."""
_STATUSES = frozenset((400, 404))
"""Those with which the protocol answers errors. Another one, as 401, is between the server and the gateway: clients
would take it for what the gateway says of their token."""


def whole(response: Response, *, quote_refusal: bool = True) -> Json:
    """The message of an answer that is no stream.

    Args:
        quote_refusal: say with what words a status was sent that is no message. Not of a server whose URL is of
            somebody who may not know what is there.

    Raises:
        WrongAnswerError: it has none; the status is said.
    """
    body = response.body or b""
    if response.content_type == "application/json":
        message = adapting.parse(body)
        # What stands at the gate of a server says `{"error": "invalid_token"}`, as OAuth has it.
        if adapting.is_response(message) and (response.status < 400 or adapting.has_outcome(message)):
            return message
    if response.status >= 400:
        text = " ".join(body[:4000].decode("utf-8", "replace").split()) if quote_refusal else ""
        said = shortened(text, _CHARACTERS) or _REFUSALS.get(response.status, "")
        raise WrongAnswerError(
            f"it refused with HTTP status {response.status}" + (f": {said}" if said else "")
        )
    raise WrongAnswerError(f"its answer with HTTP status {response.status} is no message of MCP")


async def events(response: Response, *, endless: bool = False) -> AsyncGenerator[bytes]:
    """The data of each event of a stream. Closing it closes the stream.

    Raises:
        RelayError: it broke off, or is more than is taken; one that is `endless` may have any number of them.
    """
    limits = (_ENDLESS, _ENDLESS) if endless else ()
    parser = EventStream(LARGEST_ANSWER, *limits)
    pieces = response.pieces()
    try:
        async for piece in pieces:
            try:
                for data in parser.feed(piece):
                    if data:
                        yield data
            except CallError as error:
                raise WrongAnswerError(str(error)) from None
    finally:
        response.abandon()


def event(data: bytes) -> bytes:
    """A message as an event. JSON has line ends only where they mean nothing."""
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"event: message\ndata: " + data + b"\n\n"


def answer(call: Call, message: Json, as_it_came: bytes | None, status: int) -> Answer:
    """One message for the client of `call`."""
    return Answer(
        status=status if call.era == "stateless" and status in _STATUSES else 200,
        content_type="application/json",
        body=adapting.dumped(message) if as_it_came is None else as_it_came,
        is_error=adapting.is_failure(message),
    )


def failed(call: Call, error: RelayError) -> Json:
    """The response that says so, where an answer has begun already."""
    code = TIMED_OUT if isinstance(error, LateError) else NOT_ANSWERED
    return {"jsonrpc": "2.0", "id": call.id, "error": {"code": code, "message": str(error)}}
