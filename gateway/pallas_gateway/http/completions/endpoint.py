"""`POST /v1/chat/completions`: the request goes to the agent's worker as it came, and its answer comes back likewise.

A caller who goes away takes the turn with it; one who does not read is waited for, by the worker too, until
`Connections` cuts it off. Nothing of an answer is kept but what the audit is to have.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request

from pallas_common.protocol.mcp.chain import HEADER, chain_in_header, header_of
from pallas_gateway.access.audit import LONGEST_CONTENT
from pallas_gateway.access.predicate import may
from pallas_gateway.conversations.errors import TurnFailedError
from pallas_gateway.conversations.worker import ACCEPT_HEADER, way_to
from pallas_gateway.http.completions.request import no_such_model, read_completion
from pallas_gateway.http.errors import CUT_OFF, ApiError, last_words
from pallas_gateway.http.places import NAME
from pallas_gateway.http.requests import admitted_of, read_body
from pallas_gateway.identity.grants import Permission
from pallas_gateway.mcp.reply import Watch
from pallas_gateway.relay.http.errors import BusyError, NoConnectionError, RelayError
from pallas_gateway.telemetry import metrics, tracing
from pallas_gateway.telemetry.current import current

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from pallas_gateway.access.audit import Audit, Outcome
    from pallas_gateway.conversations.worker import WorkerChats
    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.mcp.admitted import Admitted
    from pallas_gateway.relay.http.connection import Response as Relayed

ACTION = "chat.completions"
"""In the audit."""

_PASSED = (
    "content-type",
    "cache-control",
    "x-accel-buffering",
    "pallas-ignored",
    "retry-after",
    "x-should-retry",
    "allow",
)
"""Headers of a worker's answer that its caller gets."""
_NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's clients send a request again by themselves from 500 on, unless told not to: tools may have been called."""
_DONE = b"data: [DONE]\n\n"
"""The end of a stream that has ended well."""


class Completions:
    """The endpoint, as an ASGI application.

    Args:
        chats: the ways to workers.
    """

    def __init__(self, directory: Directory, chats: WorkerChats, audit: Audit) -> None:
        self._directory = directory
        self._chats = chats
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; one whose caller has gone away gets no answer."""
        request = Request(scope, receive)
        admitted = admitted_of(request)
        body = await read_body(request, admitted.longest_body)
        asked = read_completion(admitted.headers, body)
        completion = _Completion(admitted, asked.model, body, send)
        del body  # it may be large, and the answer may take long
        with (
            Watch(receive, _nothing),
            tracing.agent_span(ACTION, admitted.principal, asked.model, admitted.headers) as span,
        ):
            try:
                await self._answer(completion, overrides=asked.overrides)
            finally:
                tracing.set_outcome(span, completion.outcome)

    async def _answer(self, completion: _Completion, *, overrides: bool) -> None:
        admitted, model = completion.admitted, completion.model
        principal = admitted.principal
        # What is no name of an agent may look like another target in the audit.
        target = f"agent/{model if NAME.fullmatch(model) else json.dumps(model)}"
        number, trace = admitted.request_id, tracing.trace_id(admitted.headers)
        with self._audit.doing(principal, ACTION, target, request_id=number, trace_id=trace) as entry:
            if model not in self._directory.agents or not may(principal, Permission("run", "agents", model)):
                completion.outcome = entry.outcome = "denied"
                raise no_such_model(model)
            self._audit.begin(entry)
            began = time.perf_counter()
            try:
                # Agents' own tokens override nothing: what a model asks for is not what a person has set up.
                with_key = overrides and principal.role == "human"
                relayed = await self._relayed(completion, with_key=with_key)
                completion.body = completion.body[:LONGEST_CONTENT]
                if relayed.body is None:
                    await completion.stream(relayed)
                else:
                    completion.take(relayed)
                entry.outcome = completion.outcome
            except asyncio.CancelledError:
                completion.outcome = "cancelled"
                raise
            finally:
                if completion.outcome != "cancelled":
                    metrics.observe_relay(
                        f"agent-{model}", completion.is_answered, time.perf_counter() - began
                    )
                if self._audit.content:
                    entry.asked, entry.answered = completion.content()
        await completion.end()

    async def _relayed(self, completion: _Completion, *, with_key: bool) -> Relayed:
        """The worker's answer: whole, or the beginning of a stream.

        Raises:
            ApiError: there is none.
        """
        try:
            relayed = await self._post(completion, with_key=with_key, anew=False)
            if with_key and relayed.status == 403:  # the worker was replaced meanwhile; nothing has been done
                relayed.abandon()
                relayed = await self._post(completion, with_key=True, anew=True)
        except TurnFailedError as error:
            raise ApiError(error.status, error.type, str(error)) from None
        except (NoConnectionError, BusyError) as error:
            raise ApiError(503, "agent_unreachable", f"the agent cannot be reached: {error}") from None
        except RelayError as error:
            completion.outcome = "error"
            message = f"the agent broke off: {error}"
            raise ApiError(502, "agent_failed", message, headers=_NO_RETRY) from None
        return relayed

    async def _post(self, completion: _Completion, *, with_key: bool, anew: bool) -> Relayed:
        upstream = await way_to(self._directory, completion.model, with_key=with_key, anew=anew)
        admitted = completion.admitted
        headers = {
            "x-request-id": admitted.request_id,
            **header_of(chain_in_header(admitted.headers.get(HEADER.lower()))),
        }
        if "retry" in admitted.headers.get(ACCEPT_HEADER.lower(), ""):
            headers[ACCEPT_HEADER] = "retry"
        return await self._chats.post(upstream, completion.body, headers, with_key=with_key)


@dataclass(slots=True)
class _Completion:
    """One request and what becomes of it."""

    admitted: Admitted
    model: str
    body: bytes
    _send: Send
    outcome: Outcome = "error"
    is_answered: bool = False
    """Whether the worker has, whatever it said."""
    _whole: Relayed | None = None
    _said: bytes = b""

    def take(self, relayed: Relayed) -> None:
        """The answer is whole: it is sent when it has been written down."""
        assert relayed.body is not None
        if relayed.status == 503 and (said := _of_supervisor(relayed)) is not None:
            raise said
        self._whole = relayed
        self.is_answered = True
        self._said = relayed.body[:LONGEST_CONTENT]
        self.outcome = "ok" if relayed.status < 400 else "error"

    async def stream(self, relayed: Relayed) -> None:
        """Send a stream on as it comes, all but its end."""
        await self._begin(relayed)
        tail = b""
        try:
            async with aclosing(relayed.pieces()) as pieces:
                async for piece in pieces:
                    tail = (tail + piece)[-len(_DONE) :]
                    if len(self._said) < LONGEST_CONTENT:
                        self._said += piece[: LONGEST_CONTENT - len(self._said)]
                    await self._part(piece)
        except asyncio.CancelledError:
            await last_words(self._send, _between(tail) + _broken(CUT_OFF, "cut_off"))
            raise
        except RelayError as error:
            await self._part(_between(tail) + _broken(f"the agent broke off: {error}"))
        else:
            self.is_answered = True
            self.outcome = "ok" if tail == _DONE else "error"
        if self.outcome == "error":
            current().outcome = "error"  # the status was 200

    async def end(self) -> None:
        """Send the answer that is whole, or the end of the stream."""
        if self._whole is None:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        assert self._whole.body is not None
        await self._begin(self._whole, length=len(self._whole.body))
        await self._send({"type": "http.response.body", "body": self._whole.body, "more_body": False})

    def content(self) -> tuple[str, str]:
        """What was asked and answered, as much as the audit takes."""
        return self.body.decode(errors="replace"), self._said.decode(errors="replace")

    async def _begin(self, relayed: Relayed, length: int | None = None) -> None:
        headers = [
            (name.encode(), relayed.headers[name].encode("latin-1"))
            for name in _PASSED
            if name in relayed.headers
        ]
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        await self._send({"type": "http.response.start", "status": relayed.status, "headers": headers})

    async def _part(self, piece: bytes) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})


async def _nothing() -> None:
    """The worker keeps a stream alive."""


def _between(tail: bytes) -> bytes:
    """What ends an event that was cut off in its middle: no client can read it, and all fail with it."""
    return b"" if tail.endswith(b"\n\n") else b"\n\n"


def _broken(message: str, code: str = "agent_failed") -> bytes:
    """The last event of a stream that the worker does not end."""
    error = {"message": message, "type": "api_error", "param": None, "code": code}
    return b"data: %s\n\n" % json.dumps({"error": error}).encode()


def _of_supervisor(relayed: Relayed) -> ApiError | None:
    """What the supervisor says in the place of a worker that is not there, which is an error of JSON-RPC."""
    try:
        document = json.loads(relayed.body or b"")
        message = document["error"]["message"] if "jsonrpc" in document else None
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    if not isinstance(message, str):
        return None
    after = relayed.headers.get("retry-after")
    return ApiError(
        503, "agent_unavailable", message, headers=None if after is None else {"retry-after": after}
    )
