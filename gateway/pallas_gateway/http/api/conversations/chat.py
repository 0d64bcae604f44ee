"""Turns over REST: asked for, followed, stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from pallas_gateway.conversations.errors import (
    TurnFailedError,
)
from pallas_gateway.conversations.events import Position
from pallas_gateway.conversations.request import read_request
from pallas_gateway.http.api.conversations.answers import Document
from pallas_gateway.http.api.conversations.asking import as_answers
from pallas_gateway.http.api.conversations.documents import result_document
from pallas_gateway.http.api.conversations.stream import headers_of, send_turn
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.requests import admitted_of, read_json
from pallas_gateway.mcp.reply import Watch
from pallas_gateway.telemetry import tracing

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from pallas_gateway.conversations.turn import RunningTurn
    from pallas_gateway.conversations.turns import Turns
    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.http.api.conversations.asking import Asking
    from pallas_gateway.http.api.conversations.stream import Followers

type Json = dict[str, Any]


class Chat:
    """`POST /api/v1/agents/NAME/chat`, as an ASGI application."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. The turn goes on when its caller goes away."""
        request = Request(scope, receive)
        admitted = admitted_of(request)
        record = self._asking.agent(admitted, request.path_params["agent"])
        body = await read_json(request, admitted.longest_body)
        with (
            tracing.agent_span("chat", admitted.principal, record.name, admitted.headers) as span,
            Watch(receive, _nothing),
            as_answers(),
        ):
            running = None
            try:
                asked = read_request(body)
                running = await self._asking.begin(admitted, record, asked)
                streamed = asked.stream
                del body, asked  # they may be large, and the turn may take long
                if streamed:
                    admitted.opens_stream()  # the turn holds the place from now on
                    await send_turn(running, send)
                else:
                    admitted.passes_place()
                    response = await _whole(running)
                    await response(scope, receive, send)
            finally:
                tracing.set_outcome(span, _outcome(running))


class Follow:
    """`GET /api/v1/threads/ID/turn`, as an ASGI application."""

    def __init__(self, conversations: Conversations, turns: Turns, followers: Followers) -> None:
        self._conversations = conversations
        self._turns = turns
        self._followers = followers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell of the turn that is under way, or was until a minute ago, from its beginning or behind `Last-Event-ID`.

        204 where there is none, or nothing of it behind that: an `EventSource` comes again after each end of a stream,
        also after the turn's, until it is answered so (HTML, 9.2.3).
        """
        request = Request(scope, receive)
        admitted = admitted_of(request)
        principal = admitted.principal
        thread, _ = await self._conversations.thread(principal, request.path_params["thread"], "view")
        running = self._turns.of(thread.tenant, thread.id)
        if running is None:
            if thread.turn is not None:
                message = "another process of the gateway has the turn, which is being replaced; ask again"
                raise ApiError(503, "unavailable", message, headers={"retry-after": "1"})
            await Response(status_code=204)(scope, receive, send)
            return
        after = Position.parse(request.headers.get("last-event-id"), running.id)
        if running.ends_at(after):
            await Response(status_code=204)(scope, receive, send)
            return
        with self._followers.one_more(principal):
            admitted.opens_stream()
            with Watch(receive, _nothing):
                await send_turn(running, send, after=after, with_ids=True)


async def _whole(running: RunningTurn) -> Response:
    """The whole answer.

    Raises:
        ApiError: there is none.
    """
    try:
        result = await running.result()
    except TurnFailedError as error:
        headers = dict(headers_of(running))
        if error.retry_after is not None:
            headers["retry-after"] = error.retry_after
        status = error.status if 400 <= error.status < 600 else 502
        raise ApiError(status, error.type, str(error), field=error.field, headers=headers) from None
    return Document(result_document(running.thread.id, result), headers=headers_of(running))


def _outcome(running: RunningTurn | None) -> str:
    """How the turn has gone, as far as its caller has seen it."""
    if running is None:
        return "error"
    return running.outcome if running.is_over else "cancelled"


async def _nothing() -> None:
    """A stream keeps itself alive."""
