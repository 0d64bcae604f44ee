"""A server of MCP over Streamable HTTP, in the era that it speaks: sessions, which heal themselves, or none."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Any

from pallas_common.problems import quoted
from pallas_gateway.relay.http.errors import LateError, LostError, RelayError, WrongAnswerError
from pallas_gateway.relay.http.pool import Pool
from pallas_gateway.relay.messages import adapting, answers
from pallas_gateway.relay.messages.model import (
    OPENED,
    SESSIONS_VERSION,
    STATELESS_VERSION,
    Answer,
    Opened,
    ServerError,
)
from pallas_gateway.relay.request_lines import is_session_id, method_lines, session_lines

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from pallas_gateway.relay.http.connection import Response
    from pallas_gateway.relay.http.endpoint import Endpoint
    from pallas_gateway.relay.messages.model import Call, Era, Heard, Json

OPEN_TIMEOUT = 20.0
"""Seconds for each request of the handshake."""
_UNSUPPORTED_VERSION = -32022
_METHOD_NOT_FOUND = -32601
_SESSION_VERSIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", SESSIONS_VERSION})


class HttpLink:
    """One server at one endpoint.

    Args:
        read_timeout: seconds that the server's settings allow for one answer; None for no limit of its own.
        stateless: what is known to speak 2026-07-28 is not asked.
        pool: of another link to the same server, which keeps sessions.
    """

    transport = "http"

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        read_timeout: float | None = None,
        stateless: bool = False,
        pool: Pool | None = None,
    ) -> None:
        self._pool = pool or Pool(endpoint)
        self.shares_connections = pool is not None
        self.keeps_sessions = False
        self._read_timeout = read_timeout
        self._era: Era = "stateless"
        self._version = STATELESS_VERSION
        self._known = stateless
        self._session: str | None = None
        self._ids = itertools.count(1)
        self._cancelling: set[asyncio.Task[None]] = set()
        self._head = endpoint.head("POST")

    @property
    def connections(self) -> int:
        """How many are open now."""
        return self._pool.connections

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way."""
        return self._pool.is_busy

    def another(self) -> HttpLink:
        """A link for a session of its own, on the same connections."""
        return HttpLink(self._pool.endpoint, read_timeout=self._read_timeout, pool=self._pool)

    async def open(self) -> Opened:
        """Ask by `server/discover`, and where that is not known by `initialize`.

        Raises:
            RelayError: nothing answers, or not as a server of MCP does.
            ServerError: it refuses.
        """
        if self.shares_connections:
            return await self._initialize()
        self._era, self._version, self._session = "stateless", STATELESS_VERSION, None
        try:
            result = await self.request("server/discover", {}, timeout=OPEN_TIMEOUT)
        except ServerError as error:
            supported = error.data.get("supported") if isinstance(error.data, dict) else None
            if error.code == _UNSUPPORTED_VERSION and isinstance(supported, list):
                texts = {version for version in supported if isinstance(version, str)}
                if not _SESSION_VERSIONS & texts:
                    raise
            return await self._initialize()
        except WrongAnswerError:
            return await self._initialize()
        versions = result.get("supportedVersions")
        if not isinstance(versions, list) or STATELESS_VERSION not in versions:
            return await self._initialize()
        self._known, self.keeps_sessions = True, False
        return adapting.opened("stateless", STATELESS_VERSION, result)

    async def _initialize(self) -> Opened:
        self._era, self._version, self._session = "sessions", "", None
        params = {
            "protocolVersion": SESSIONS_VERSION,
            "capabilities": {},
            "clientInfo": adapting.CLIENT,
        }
        id_ = next(self._ids)
        body = adapting.dumped({"jsonrpc": "2.0", "id": id_, "method": "initialize", "params": params})
        response = await self._post(body, "initialize", {}, timeout=OPEN_TIMEOUT, safe=True)
        result = adapting.result_of(await self._response(response, id_))
        version = result.get("protocolVersion")
        if version not in _SESSION_VERSIONS:
            raise WrongAnswerError("it speaks no version of MCP that the gateway knows")
        session = response.headers.get("mcp-session-id")
        if session is not None and not is_session_id(session):
            raise WrongAnswerError("its session has an id that cannot be sent")
        self._session, self._version = session, version
        self.keeps_sessions = session is not None
        await self._notify("notifications/initialized")
        return adapting.opened("sessions", version, result)

    async def request(self, method: str, params: Json, *, timeout: float) -> Json:
        """The result of a request of our own, which may be sent twice.

        Raises:
            RelayError, ServerError: there is none.
        """
        for last in (False, True):
            id_ = next(self._ids)
            sent = adapting.own_params(params, self._era, self._version)
            body = adapting.dumped({"jsonrpc": "2.0", "id": id_, "method": method, "params": sent})
            session = self._session
            response = await self._post(body, method, params, timeout=timeout, safe=True)
            if self._is_stale(response, session) and not last:
                await self._renew(session)
                continue
            return adapting.result_of(await self._response(response, id_))
        raise AssertionError("unreachable")

    async def relay(self, call: Call) -> Answer:
        """The answer to a client's request.

        Raises:
            RelayError: there is none.
            ServerError: a new session was refused.
        """
        timeout = call.within(self._read_timeout).timeout
        params = adapting.outgoing(call, self._era, self._version)
        # Ids in a session are everybody's, so that those of two clients could be the same.
        id_ = call.id if self._era == "stateless" else f"pallas-{next(self._ids)}"
        body = adapting.dumped({"jsonrpc": "2.0", "id": id_, "method": call.method, "params": params})
        for last in (False, True):
            session = self._session
            headers = {**(call.tool_headers if self._era == "stateless" else {}), **call.trace}
            try:
                response = await self._post(
                    body, call.method, params, timeout=timeout, safe=False, more=headers
                )
                if self._is_stale(response, session) and not last:
                    await self._renew(session)
                    continue
                return await self._answer(response, call, id_)
            except (asyncio.CancelledError, LateError):
                if self._era == "sessions":
                    self._cancel(id_)
                raise
        raise AssertionError("unreachable")

    async def watch(self, uris: frozenset[str], heard: Heard) -> None:
        """Hear of changes until the stream ends; returns only where there is none.

        Raises:
            RelayError: it broke off, or cannot be opened at the moment.
        """
        if self._era == "stateless":
            id_ = f"watch-{next(self._ids)}"
            wanted: Json = {
                "toolsListChanged": True,
                "promptsListChanged": True,
                "resourcesListChanged": True,
            }
            if uris:
                wanted["resourceSubscriptions"] = sorted(uris)
            params = adapting.own_params({"notifications": wanted}, self._era, self._version)
            method = "subscriptions/listen"
            body = adapting.dumped({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
            response = await self._post(body, method, {}, timeout=OPEN_TIMEOUT, safe=True)
        else:
            await self.resubscribe(frozenset(), uris)
            response = await self._get()
            if self._is_stale(response, self._session):
                raise LostError("its session has ended")
        if response.body is not None:
            return  # 404, 405: it tells of nothing
        response.unlimited()
        if self._era == "sessions":
            heard(OPENED, {})
        async for data in answers.events(response, endless=True):
            message = adapting.parse(data)
            method_, params_ = message.get("method"), message.get("params")
            if method_ == "notifications/subscriptions/acknowledged":
                heard(OPENED, {})
            elif isinstance(method_, str) and "id" not in message:
                heard(method_, params_ if isinstance(params_, dict) else {})
            elif isinstance(method_, str):
                await self._refuse(message)
            elif adapting.is_response(message):
                break
        raise LostError("the server has ended the stream of changes")

    async def resubscribe(self, before: frozenset[str], after: frozenset[str]) -> bool:
        """In a session, say what has changed; each stream of 2026-07-28 says all that it is about."""
        if self._era == "stateless":
            return False
        for method, uris in (("subscribe", after - before), ("unsubscribe", before - after)):
            for uri in sorted(uris):
                with contextlib.suppress(ServerError):
                    await self.request(f"resources/{method}", {"uri": uri}, timeout=OPEN_TIMEOUT)
        return True

    async def close(self) -> None:
        """End the session, as far as the server hears it, and all connections."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(RelayError):
                await self._pool.exchange(
                    self._request("DELETE", b"", session_lines(self._version, session)),
                    safe=True,
                    timeout=2.0,
                )
        if not self.shares_connections:
            self._pool.close()

    # One request.

    async def _post(
        self,
        body: bytes,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout: float | None,
        safe: bool,
        more: Mapping[str, str] | None = None,
    ) -> Response:
        for redirected in (False, True):
            lines = session_lines(self._version, self._session)
            if self._era == "stateless":
                lines += method_lines(method, params)
            for name, value in (more or {}).items():
                lines += f"{name}: {value}\r\n"
            response = await self._pool.exchange(
                self._request("POST", body, lines), safe=safe, timeout=timeout
            )
            if not 300 <= response.status < 400:
                return response
            response.abandon()
            location = response.headers.get("location", "")
            endpoint = self._pool.endpoint.redirected(location)
            if redirected or response.status not in (307, 308) or endpoint is None:
                raise WrongAnswerError(
                    f"it redirects to {quoted(location, 200)}, which is not followed: "
                    "name that URL in its settings if it is meant"
                )
            self._pool.endpoint = endpoint
            self._head = endpoint.head("POST")
        raise AssertionError("unreachable")

    async def _get(self) -> Response:
        lines = f"accept: text/event-stream\r\n{session_lines(self._version, self._session)}\r\n"
        head = self._pool.endpoint.head("GET") + lines.encode("latin-1")
        return await self._pool.exchange(head, safe=True, timeout=OPEN_TIMEOUT)

    def _request(self, method: str, body: bytes, lines: str) -> bytes:
        head = self._head if method == "POST" else self._pool.endpoint.head(method)
        rest = (
            "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
            f"{lines}content-length: {len(body)}\r\n\r\n"
        )
        return head + rest.encode("latin-1") + body

    async def _notify(self, method: str, params: Json | None = None) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        response = await self._post(adapting.dumped(message), method, {}, timeout=OPEN_TIMEOUT, safe=True)
        response.abandon()

    async def _refuse(self, message: Json) -> None:
        """Answer what the server asks us, in a session: it is there, and can ask nothing else."""
        if self._era != "sessions" or not isinstance(message.get("method"), str):
            return
        outcome: Json = {"error": {"code": _METHOD_NOT_FOUND, "message": "Method not found"}}
        if message.get("method") == "ping":
            outcome = {"result": {}}
        body = adapting.dumped({"jsonrpc": "2.0", "id": message.get("id"), **outcome})
        (await self._post(body, "", {}, timeout=OPEN_TIMEOUT, safe=True)).abandon()

    def _is_stale(self, response: Response, session: str | None) -> bool:
        if response.status != 404 or session is None:
            return False
        response.abandon()
        return True

    async def _renew(self, stale: str | None) -> None:
        if self._session == stale:  # else another request has made a new one already
            await self._initialize()

    def _cancel(self, id_: int | str) -> None:
        """Say that nobody waits for an answer any more, without waiting for what the server says to that."""
        task = asyncio.get_running_loop().create_task(self._say_cancelled(id_))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _say_cancelled(self, id_: int | str) -> None:
        params = {"requestId": id_, "reason": "the caller has gone"}
        with contextlib.suppress(RelayError):
            await self._notify("notifications/cancelled", params)

    def _whole(self, response: Response) -> Json:
        return answers.whole(response, quote_refusal=not self._pool.endpoint.closed)

    async def _response(self, response: Response, id_: int | str) -> Json:
        """The message that answers a request of our own."""
        if response.body is not None:
            return self._whole(response)
        async for data in answers.events(response):
            message = adapting.parse(data)
            if adapting.is_response(message):
                if message.get("id") != id_:
                    raise WrongAnswerError("the answer has another id than the request")
                return message
            if "id" in message:
                await self._refuse(message)
        raise WrongAnswerError("the stream ended before the answer")

    async def _answer(self, response: Response, call: Call, id_: int | str) -> Answer:
        """What the client gets of what the server says; a stream only where something comes before the answer."""
        if response.body is not None:
            message, same = adapting.answered(self._whole(response), call, id_, self._era)
            return answers.answer(call, message, response.body if same else None, response.status)
        messages = answers.events(response)
        try:
            async for data in messages:
                message = adapting.parse(data)
                if adapting.is_response(message):
                    message, same = adapting.answered(message, call, id_, self._era)
                    response.finish()
                    return answers.answer(call, message, data if same else None, response.status)
                if "id" in message:
                    await self._refuse(message)
                elif isinstance(message.get("method"), str):
                    stream = self._stream(data, messages, response, call, id_)
                    return Answer(status=200, content_type="text/event-stream", body=stream)
        except BaseException:
            response.abandon()
            raise
        raise LostError("the stream ended before the answer")

    async def _stream(
        self,
        first: bytes,
        messages: AsyncGenerator[bytes],
        response: Response,
        call: Call,
        id_: int | str,
    ) -> AsyncIterator[bytes]:
        finished = False
        try:
            yield answers.event(first)
            async for data in messages:
                message = adapting.parse(data)
                if adapting.is_response(message):
                    message, same = adapting.answered(message, call, id_, self._era)
                    finished = True
                    response.finish()
                    yield answers.event(data if same else adapting.dumped(message))
                    return
                if "id" not in message:
                    yield answers.event(data)
                else:
                    await self._refuse(message)
            raise LostError("the stream ended before the answer")
        except RelayError as error:
            finished = True
            yield answers.event(adapting.dumped(answers.failed(call, error)))
        finally:
            await messages.aclose()
            if not finished and self._era == "sessions":
                self._cancel(id_)
