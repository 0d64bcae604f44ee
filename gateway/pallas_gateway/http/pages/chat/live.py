"""An answer while it is spoken, as server-sent events of HTML, for as many tabs as look at it.

Each has all pieces told from the beginning: an `EventSource` that was cut off comes again and is right at once.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from pallas_gateway.http.api.conversations.stream import EVENT_STREAM, KEEP_ALIVE
from pallas_gateway.http.pages.requests import admitted_of
from pallas_gateway.http.pages.view.live import LiveAnswer
from pallas_gateway.mcp.reply import Watch

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from pallas_gateway.conversations.turn import RunningTurn
    from pallas_gateway.conversations.turns import Turns
    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.http.api.conversations.stream import Followers
    from pallas_gateway.http.pages.view.live import Change

AT_LEAST = 0.05
"""Seconds between two events: nobody reads faster."""
SHARE = 20.0
"""How many times as long as rendering took nothing is rendered: one reader takes a twentieth of a core at most."""


class Live:
    """`GET /chat/turn?thread=ID`, as an ASGI application."""

    def __init__(self, conversations: Conversations, turns: Turns, followers: Followers) -> None:
        self._conversations = conversations
        self._turns = turns
        self._followers = followers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell of the turn that is under way until its end; 204 where there is none: an `EventSource` stops then."""
        request = Request(scope, receive)
        admitted = admitted_of(request)
        said = request.query_params.get("thread", "")
        thread, _ = await self._conversations.thread(admitted.principal, said, "view", on_agent="view")
        running = self._turns.of(thread.tenant, thread.id)
        if running is None or running.is_over:
            await Response(status_code=204)(scope, receive, send)
            return
        with self._followers.one_more(admitted.principal):
            admitted.opens_stream()
            with Watch(receive, _nothing):
                await _tell(running, send)


async def _tell(running: RunningTurn, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [*EVENT_STREAM]})
    answer = LiveAnswer()
    async with aclosing(running.batches(silence=KEEP_ALIVE)) as happening:
        async for happened in happening:
            for _, event in happened:
                answer.take(event)
            change, seconds = await asyncio.to_thread(_rendered, answer)
            if change is None:
                await _send(send, b": waiting\n\n")
                continue
            await _send(send, _event({"first": change.first, "pieces": change.pieces}))
            await asyncio.sleep(max(AT_LEAST, SHARE * seconds))
    refused = None if running.refusal is None else running.refusal.message
    await _send(send, _event({"end": True, "refused": refused}), more=False)


def _rendered(answer: LiveAnswer) -> tuple[Change | None, float]:
    """What is new, and the seconds of CPU that it took."""
    began = time.thread_time()
    return answer.change(), time.thread_time() - began


async def _send(send: Send, data: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


def _event(document: dict[str, object]) -> bytes:
    return b"data: %s\n\n" % json.dumps(document, separators=(",", ":")).encode()


async def _nothing() -> None:
    """The stream keeps itself alive."""
