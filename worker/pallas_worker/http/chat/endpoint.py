"""The endpoints below `/v1`: a request becomes a turn, whole or streamed; the agent is the one model that there is.

Knows HTTP and who may override what; shapes are in `interface/chat`, the turn in `calls`. Host and Origin were checked.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import Response

from pallas_common.protocol.agent.completion import ignored_header
from pallas_common.protocol.keys import KEY_HEADER
from pallas_common.protocol.mcp.chain import HEADER, chain_in_header
from pallas_worker.calls.call import Caller
from pallas_worker.calls.large import beside
from pallas_worker.calls.record import who_calls
from pallas_worker.downstreams.bearer import inbound_bearer
from pallas_worker.http.chat.client import GoneError, RefusedError, read_object, while_there
from pallas_worker.http.chat.stream import Stream, encoded
from pallas_worker.interface.chat.answers import Head, completion
from pallas_worker.interface.chat.errors import ENDING, WRONG_KEY, error_of, no_such_model
from pallas_worker.interface.chat.request import delivery_of, parse_chat
from pallas_worker.interface.errors import FailedTurn
from pallas_worker.interface.turn import Ignored
from pallas_worker.telemetry.correlation import request_id
from pallas_worker.telemetry.tracing import inbound_trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Receive, Scope, Send

    from pallas_common.protocol.spec import WorkerSpec
    from pallas_worker.calls.call import Calls
    from pallas_worker.http.chat.client import Received
    from pallas_worker.interface.chat.errors import ApiError
    from pallas_worker.interface.turn import TurnEvent, TurnRequest

PATH = "/v1/chat/completions"
ACCEPT_HEADER = "pallas-accept"
"""What a client can do beyond OpenAI's protocol. `retry`: take text back that a chunk of `pallas` says is void.
`detail`: show a provider's own words to a person who may read logs. The gateway says so for its callers."""


class ChatEndpoint:
    """Chat completions of one agent, as an ASGI application."""

    def __init__(self, spec: WorkerSpec, calls: Calls) -> None:
        self._agent = spec.agent
        self._output = spec.output_schema
        self._key = spec.key.encode() if spec.key else None
        self._siblings_key = spec.siblings_key.encode() if spec.siblings_key else None
        self._overrides = spec.overrides
        self._limit = spec.max_request_bytes
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; one whose client has gone away gets no answer."""
        headers = Headers(scope=scope)
        exchange = _Exchange(request_id(headers), scope, receive, send)
        try:
            body = await read_object(scope, receive, self._limit)
            may_override = self._may_override(headers)
            name = body.fields.get("model")
            if isinstance(name, str) and name != self._agent:
                await exchange.fail(no_such_model(name, self._agent))
                return
            with inbound_trace(headers):
                await while_there(receive, self._answer(body, headers, exchange, may_override=may_override))
        except RefusedError as refused:
            await exchange.fail(refused.error)
        except GoneError:
            return
        except asyncio.CancelledError:  # the worker drains, and has waited as long as it may
            await exchange.cut(ENDING)

    def _may_override(self, headers: Mapping[str, str]) -> bool:
        """Whether the caller may set what belongs to the agent's definition.

        Raises:
            RefusedError: it shows a key that is not this worker's; another start's, most likely.
        """
        shown = headers.get(KEY_HEADER)
        if shown is None or _is(shown, self._siblings_key):
            return self._overrides
        if not _is(shown, self._key):
            raise RefusedError(WRONG_KEY)
        return True

    async def _answer(
        self,
        body: Received,
        headers: Mapping[str, str],
        exchange: _Exchange,
        *,
        may_override: bool,
    ) -> None:
        head = Head(f"chatcmpl-{secrets.token_hex(12)}", int(time.time()), self._agent)
        ignored: list[str] = []
        accepted = {word.strip() for word in headers.get(ACCEPT_HEADER, "").split(",")}
        detailed = "detail" in accepted

        def check() -> TurnRequest:
            request = parse_chat(
                body.fields, agent=self._agent, may_override=may_override, output=self._output
            )
            ignored.extend(request.ignored)
            return request.turn

        def note(event: TurnEvent) -> None:
            if isinstance(event, Ignored):
                ignored.extend(event.parameters)

        caller = Caller(
            surface="chat",
            request_id=exchange.request_id,
            bearer=inbound_bearer(headers),
            tell=note,
            chain=(chain := chain_in_header(headers.get(HEADER.lower()))),
            who=who_calls(headers, chain),
        )
        read = await beside(body.size, check)
        delivery = delivery_of(body.fields)
        if delivery.stream:
            stream = Stream(
                head,
                ignored,
                exchange.headers,
                exchange.send,
                include_usage=delivery.include_usage,
                detailed=detailed,
            )
            streamed = replace(caller, takes_back="retry" in accepted)
            await stream.run(
                lambda tell, room: self._calls.turn(read, replace(streamed, tell=tell, room=room)),
                exchange.fail,
            )
            return
        try:
            result = await self._calls.turn(read, caller)
        except FailedTurn as failed:
            await exchange.fail(error_of(failed, detailed=detailed), ignored_header(ignored))
        else:
            await exchange.respond(200, completion(head, result, ignored), ignored_header(ignored))


def _is(shown: str, key: bytes | None) -> bool:
    return key is not None and hmac.compare_digest(shown.encode(), key)


class _Exchange:
    """One request and its response."""

    def __init__(self, number: str, scope: Scope, receive: Receive, send: Send) -> None:
        self.request_id = number
        self.headers = {"X-Request-Id": number}
        self._scope = scope
        self._receive = receive
        self._send = send
        self._begun = False

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        self._begun = True
        await self._send(message)

    async def cut(self, error: ApiError) -> None:
        """End with an error; in a stream that has begun, as its last event."""
        if not self._begun:
            await self.fail(error)
            return
        event = b"data: %s\n\n" % encoded(error.document())
        await self.send({"type": "http.response.body", "body": event, "more_body": False})

    async def fail(self, error: ApiError, headers: Mapping[str, str] | None = None) -> None:
        """Answer with an error."""
        await self.respond(error.status, error.document(), {**error.headers, **(headers or {})})

    async def respond(self, status: int, document: Mapping[str, object], headers: Mapping[str, str]) -> None:
        """Answer with a document."""
        all_headers = {**self.headers, **headers}
        response = Response(encoded(document), status, all_headers, "application/json")
        await response(self._scope, self._receive, self.send)
