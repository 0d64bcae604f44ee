"""MCP over Streamable HTTP in both eras, as an ASGI application that is told who asks and what is served.

2025-11-25 and before: `initialize` makes a session, a GET streams what happens in it, a DELETE ends it. 2026-07-28:
each POST stands for itself. Which of both a request is, its headers say. Which server answers, and who may ask it,
the caller knows.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.mcp.lone_requests import JsonAnswer, may_stand_alone, stands_alone
from pallas_gateway.directory.events.subscriptions import Change, Subscriptions, TooManySubscriptionsError
from pallas_gateway.identity.principal import end_of_stream
from pallas_gateway.mcp import headers as rules
from pallas_gateway.mcp import streams, wire
from pallas_gateway.mcp.admitted import Unaudited, Unobserved
from pallas_gateway.mcp.errors import (
    HTTP_STATUS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LIMIT_EXCEEDED,
    REQUEST_CANCELLED,
)
from pallas_gateway.mcp.headers import HttpError
from pallas_gateway.mcp.methods import (
    LONGEST_NAME,
    LONGEST_URI,
    Methods,
    capabilities,
    discovered,
    named,
    no_such_method,
    outcome_of,
    stateless_result,
    text_parameter,
)
from pallas_gateway.mcp.reply import ClientGoneError, Reply, Watch, read_body
from pallas_gateway.mcp.sessions import Sessions
from pallas_gateway.mcp.surface import ClientRequest, InsufficientScopeError, McpError, Relayed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

    from pallas_gateway.directory.events.log import EventLog
    from pallas_gateway.mcp.admitted import Admitted, Audit, Observe, Outcome
    from pallas_gateway.mcp.reply import Headers
    from pallas_gateway.mcp.sessions import Session
    from pallas_gateway.mcp.surface import Era, Json, Surface
    from pallas_gateway.mcp.wire import Message

_log = get_logger("pallas.gateway.mcp")


class Endpoint:
    """All of MCP for all servers of the gateway.

    Args:
        log: what changes; reads are remembered in it.
        most_subscriptions: resources, sessions and streams of one principal.
        audit, observe: what is told while it works.
    """

    def __init__(
        self,
        log: EventLog,
        *,
        most_subscriptions: int,
        audit: Audit | None = None,
        observe: Observe | None = None,
        sessions: Sessions | None = None,
    ) -> None:
        self.subscriptions = Subscriptions(log, most=most_subscriptions)
        self.sessions = sessions or Sessions(most_each=most_subscriptions)
        self.methods = Methods(log, audit or Unaudited())
        self.observe = observe or Unobserved()

    def revoke(self, principal: str) -> None:
        """What the principal may has changed, or it may nothing any more: its sessions and streams end."""
        self.subscriptions.revoke(principal)
        self.sessions.revoke(principal)

    def drain(self) -> None:
        """End all streams, as the protocol wants it: the process ends."""
        self.subscriptions.drain()

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, admitted: Admitted, surface: Surface
    ) -> None:
        """Answer one HTTP request.

        Raises:
            InsufficientScopeError: the principal may not do that; nothing has been sent.
        """
        exchange = Exchange(self, scope, receive, send, admitted, surface)
        try:
            await exchange.serve()
        except HttpError as error:
            await exchange.refuse(McpError(INVALID_REQUEST, str(error), status=error.status), error.headers)
        except McpError as error:
            await exchange.refuse(error)
        except ClientGoneError:
            return


class Exchange:
    """One HTTP request and its answer."""

    def __init__(
        self,
        endpoint: Endpoint,
        scope: Scope,
        receive: Receive,
        send: Send,
        admitted: Admitted,
        surface: Surface,
    ) -> None:
        self._endpoint = endpoint
        self._scope = scope
        self._receive = receive
        self._admitted = admitted
        self._principal = admitted.principal
        self._surface = surface
        self._request_id = admitted.request_id
        self._send = send
        self._reply = Reply(send)
        self._era: Era = "stateless"
        self._id: int | str | None = None

    async def serve(self) -> None:
        """Answer, or raise why not."""
        headers = self._headers = rules.fold(self._scope["headers"])
        match self._scope["method"]:
            case "POST":
                await self._post()
            case "GET" | "DELETE" if headers.get(rules.VERSION) in rules.STATELESS_VERSIONS:
                raise HttpError(405, "this revision takes POST alone", ((b"allow", b"POST"),))
            case "GET":
                await self._get()
            case "DELETE":
                self._endpoint.sessions.end(self._session())
                await self._reply.json(b"", 204)
            case _:
                raise HttpError(
                    405, "this path takes POST, GET and DELETE", ((b"allow", b"POST, GET, DELETE"),)
                )

    async def refuse(self, error: McpError, headers: Headers = ()) -> None:
        """Answer with an error, in the way of the era."""
        status = error.status
        if status is None:
            is_answer = self._era == "sessions" and self._id is not None and error.code != LIMIT_EXCEEDED
            status = 200 if is_answer else HTTP_STATUS.get(error.code, 200)
        wait = (error.data or {}).get("retry_after_ms")
        if isinstance(wait, (int, float)):
            headers = (*headers, (b"retry-after", str(max(1, -(-int(wait) // 1000))).encode()))
        await self._reply.message(wire.failure(self._id, error), status, headers)

    async def _post(self) -> None:
        may_be_alone = may_stand_alone(self._headers)
        if not may_be_alone:
            rules.check_accepts_both(self._headers)
        rules.check_brings_json(self._headers)
        body = await read_body(self._receive, self._headers, self._admitted.longest_body)
        message = wire.read_message(body)
        self._id = message.id
        if may_be_alone and stands_alone(message.method, message.params):
            self._era = "sessions"
            self._reply = Reply(JsonAnswer(self._send).send)
            await self._post_without_version(message, body)
            return
        rules.check_accepts_both(self._headers)
        if rules.is_stateless(self._headers, message):
            await self._post_alone(message, body)
        else:
            self._era = "sessions"
            await self._post_in_session(message, body)

    async def _post_without_version(self, message: Message, body: bytes) -> None:
        """Answer what comes without session and version, as one answer of JSON."""
        if message.kind == "notification":
            await self._reply.json(b"", 202)
            return
        if message.kind == "response":
            raise McpError(INVALID_REQUEST, "nothing was asked: there are no requests to clients")
        request = self._request(message, body, rules.SESSION_VERSIONS[-1], None)
        match message.method:
            case "ping":
                await self._reply.json(wire.answer(request.id, {}))
            case _:
                rules.check_lone(message.method)
                with self._watch():
                    await self._answer(request)

    async def _post_alone(self, message: Message, body: bytes) -> None:
        if message.kind == "notification":
            rules.check_version(self._headers.get(rules.VERSION, ""))
            await self._reply.json(b"", 202)
            return
        if message.kind == "response":
            raise McpError(INVALID_REQUEST, "nothing was asked: there are no requests to clients")
        version = rules.check_stateless(self._headers, message)
        request = self._request(message, body, version, None)
        match message.method:
            case "server/discover":
                with self._observed(request):
                    result = stateless_result(message.method, discovered(self._surface), self._surface)
                    await self._reply.json(wire.answer(request.id, result))
            case "subscriptions/listen":
                with self._observed(request), Watch(self._receive, _nothing, patience=0):
                    self._admitted.subscribes()
                    self._admitted.opens_stream()
                    await self._surface.ready()
                    await streams.listen(request, self._surface, self._endpoint.subscriptions, self._reply)
            case _:
                with self._watch():
                    await self._answer(request)

    async def _post_in_session(self, message: Message, body: bytes) -> None:
        if message.method == "initialize" and message.kind == "request":
            with self._observed(self._request(message, body, "", None)):
                await self._initialize(message)
            return
        rules.check_session_version(self._headers)
        session = self._session()
        if message.kind != "request":
            if message.method == "notifications/cancelled":
                session.cancel(message.params.get("requestId"))
            await self._reply.json(b"", 202)
            return
        session.subscriber.may_be_told_by(streams.may_be_told(self._surface))
        request = self._request(message, body, session.version, session)
        match message.method:
            case "ping":
                await self._reply.json(wire.answer(request.id, {}))
            case "resources/subscribe" | "resources/unsubscribe":
                with self._observed(request):
                    await self._subscribe(session, message)
                    await self._reply.json(wire.answer(request.id, {}))
            case _:
                watch = self._watch()
                session.begin(request.id, watch)
                try:
                    with watch:
                        await self._answer(request)
                finally:
                    del session.in_flight[request.id]
                    self._endpoint.sessions.touch(session)
                if watch.gone == "cancelled":
                    await self.refuse(McpError(REQUEST_CANCELLED, "the request was cancelled"))

    async def _initialize(self, message: Message) -> None:
        if rules.SESSION in self._headers:
            self._session()
            raise McpError(INVALID_REQUEST, "this session is initialized already")
        params = message.params
        requested = text_parameter(params, "protocolVersion", LONGEST_NAME)
        for key in ("capabilities", "clientInfo"):
            if not isinstance(params.get(key), dict):
                raise McpError(INVALID_PARAMS, f"params.{key}: has to be an object")
        subscriptions, sessions = self._endpoint.subscriptions, self._endpoint.sessions
        sessions.make_room(self._principal.id)
        try:
            subscriber = subscriptions.subscriber(self._principal.id, streams.may_be_told(self._surface))
        except TooManySubscriptionsError as error:
            raise streams.too_many(error) from None
        streams.subscribe_to_lists(subscriptions, subscriber, self._surface)
        version = rules.negotiated(requested)
        session = sessions.add(self._principal.id, self._admitted.path, version, subscriber)
        result: Json = {
            "protocolVersion": version,
            "capabilities": capabilities(self._surface),
            "serverInfo": self._surface.info,
        }
        if self._surface.instructions:
            result["instructions"] = self._surface.instructions
        assert message.id is not None
        header = (rules.SESSION.encode(), session.id.encode())
        await self._reply.json(wire.answer(message.id, result), headers=(header,))

    async def _get(self) -> None:
        if not rules.accepted(self._headers)[1]:
            raise HttpError(406, "Accept: has to list text/event-stream")
        rules.check_session_version(self._headers)
        session = self._session()
        session.subscriber.may_be_told_by(streams.may_be_told(self._surface))
        self._admitted.opens_stream()
        try:
            with Watch(self._receive, _nothing, patience=0):
                await streams.follow(session, self._reply, end_of_stream(self._principal))
        finally:
            self._endpoint.sessions.touch(session)

    def _session(self) -> Session:
        session_id = self._headers.get(rules.SESSION)
        if session_id is None:
            raise HttpError(400, f"{rules.SESSION}: is missing; begin with initialize")
        found = self._endpoint.sessions.find(session_id, self._principal.id, self._admitted.path)
        if found is None:
            raise HttpError(404, "no such session: begin again with initialize")
        return found

    async def _subscribe(self, session: Session, message: Message) -> None:
        if "resources" not in self._surface.lists:
            raise no_such_method(message.method)
        uri = text_parameter(message.params, "uri", LONGEST_URI)
        self._admitted.subscribes()
        subscriptions = self._endpoint.subscriptions
        if message.method == "resources/unsubscribe":
            subscriptions.unsubscribe(session.subscriber, Change("resource", uri))
        else:
            await self._surface.ready()
            streams.subscribe_to_resource(subscriptions, session.subscriber, self._surface, uri)

    def _request(self, message: Message, body: bytes, version: str, session: Session | None) -> ClientRequest:
        assert message.id is not None
        return ClientRequest(
            principal=self._principal,
            era=self._era,
            version=version,
            id=message.id,
            method=message.method,
            params=message.params,
            body=body,
            headers=self._headers,
            session=session.id if session else None,
            request_id=self._request_id,
            notify=self._reply.notify,
            passes_place=self._admitted.passes_place,
        )

    @contextmanager
    def _observed(self, request: ClientRequest) -> Iterator[None]:
        """What asks nothing of a surface's own: how it ended is told, and goes on."""
        observation = self._endpoint.observe.begin(request, None)
        outcome: Outcome = "error"
        code: int | None = None
        try:
            yield
            outcome = "ok"
        except McpError as error:
            outcome, code = outcome_of(error), error.code
            raise
        except InsufficientScopeError:
            outcome = "denied"
            raise
        except (ClientGoneError, asyncio.CancelledError):
            outcome = "cancelled"
            raise
        finally:
            observation.end(outcome, code)

    def _watch(self) -> Watch:
        return Watch(self._receive, self._reply.ping)

    async def _answer(self, request: ClientRequest) -> None:
        """Ask the surface, and answer what it says."""
        observation = self._endpoint.observe.begin(request, named(request))
        outcome: Outcome = "cancelled"
        code: int | None = None
        try:
            result = await self._endpoint.methods.result(request, self._surface)
            if isinstance(result, Relayed):
                await self._reply.relay(result)
                outcome = "failed" if result.is_error else "ok"
            else:
                outcome = "failed" if result.get("isError") is True else "ok"
                if self._era == "stateless":
                    result = stateless_result(request.method, result, self._surface)
                await self._reply.message(wire.answer(request.id, result))
        except McpError as error:
            outcome, code = outcome_of(error), error.code
            await self.refuse(error)
        except InsufficientScopeError as error:
            outcome = "denied"
            if not self._reply.started:
                raise
            await self.refuse(McpError(INVALID_REQUEST, str(error), {"scope": str(error.permission)}))
        except ClientGoneError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the client has to be told that there is no answer
            outcome, code = "error", INTERNAL_ERROR
            _log.error(
                "a request has failed", method=request.method, request_id=self._request_id, exc_info=error
            )
            message = f"an error of the gateway; its log has more under {self._request_id}"
            await self.refuse(McpError(INTERNAL_ERROR, message))
        finally:
            observation.end(outcome, code)


async def _nothing() -> None:
    """A stream says by itself that it is alive."""
