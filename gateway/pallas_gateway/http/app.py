"""The ASGI application of the gateway's port: who, then may, then how much, then what is asked for.

Raw ASGI: on the way of a call of MCP there is no routing and no request object. Knows neither agents nor the protocol
of MCP. A bearer token goes no further than this file.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Literal

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Router

from pallas_common.http.hosts import OPEN_PATH
from pallas_gateway.access.limits import LimitExceededError
from pallas_gateway.http.errors import HEADERS, OPENAI, ApiError, Refusals, error
from pallas_gateway.http.places import METADATA, NoSuchPlaceError, place_of, resource_metadata
from pallas_gateway.http.requests import ADMITTED, REQUEST_ID, request_id
from pallas_gateway.http.routing import MCP_METHODS, methods, unrouted
from pallas_gateway.http.visits import VISIT
from pallas_gateway.identity.bearer import bearer_token
from pallas_gateway.identity.errors import AuthenticationError, InvalidTokenError, MissingTokenError
from pallas_gateway.mcp.admitted import Admitted
from pallas_gateway.mcp.errors import LIMIT_EXCEEDED
from pallas_gateway.mcp.surface import InsufficientScopeError, McpError
from pallas_gateway.telemetry import metrics
from pallas_gateway.telemetry.current import CURRENT, Current

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.routing import BaseRoute
    from starlette.types import Message, Receive, Scope, Send

    from pallas_common.protocol.gateway import GatewaySettings
    from pallas_gateway.access.limits import Limiter
    from pallas_gateway.http.places import Place, Surfaces
    from pallas_gateway.http.visits import Pages
    from pallas_gateway.identity.in_flight import InFlight
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.identity.principals import Principals
    from pallas_gateway.mcp.admitted import Endpoint

API = "/api/v1"

Status = Literal["ok", "degraded", "error"]

_PRIVATE = frozenset({b"authorization", b"proxy-authorization", b"cookie"})
"""Headers that are for the gateway alone."""


class GatewayApp:
    """What the gateway answers.

    Args:
        health: how it is with the gateway; never waits.
        routes: of `/api/v1` and `/v1`, with their whole paths; handlers find who asks by `requests.admitted_of`.
        pages: for people, who come with a session instead of a token.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        principals: Principals,
        limiter: Limiter,
        in_flight: InFlight,
        *,
        endpoint: Endpoint,
        surfaces: Surfaces,
        health: Callable[[], Status],
        routes: Sequence[BaseRoute] = (),
        pages: Pages | None = None,
    ) -> None:
        self._settings = settings
        self._principals = principals
        self._limiter = limiter
        self._in_flight = in_flight
        self._endpoint = endpoint
        self._surfaces = surfaces
        self._health = health
        self._api = Router(routes, redirect_slashes=False)
        self._pages = pages
        self._refusals = Refusals(settings.public_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        path = scope["path"]
        place = place_of(path)
        is_api = path.startswith((f"{API}/", OPENAI))
        if scope["method"] == "OPTIONS" and (place is not None or is_api):
            await methods(scope, None if place is not None else self._api)(scope, receive, send)
        elif place is not None:
            await self._answer(scope, receive, send, place)
        elif is_api:
            await self._answer(scope, receive, send, None)
        elif self._pages is not None and self._pages.has(path):
            await self._page(scope, receive, send, self._pages)
        else:
            await self._open(path, scope["method"])(scope, receive, send)

    def _open(self, path: str, method: str) -> Response:
        """What needs no token, and says nothing of what there is."""
        document: Any = None
        if path == OPEN_PATH:
            return PlainTextResponse("ok\n")
        if path == "/health":
            document = {"status": self._health()}
        elif path.startswith(METADATA):
            about = place_of(path.removeprefix(METADATA) or "/mcp")
            document = about and resource_metadata(self._settings, about)
        if document is None:
            message = "there is nothing here; servers of MCP are at /mcp, the API at /api/v1, OpenAI's at /v1"
            return error(path, 404, "not_found", message)
        if method not in ("GET", "HEAD"):
            allow = {"allow": "GET, HEAD"}
            return error(path, 405, "method_not_allowed", "this is read with GET", headers=allow)
        status = 503 if document.get("status") == "error" else 200
        return Response(json.dumps(document).encode(), status, HEADERS, media_type="application/json")

    async def _page(self, scope: Scope, receive: Receive, send: Send, pages: Pages) -> None:
        """Answer a browser."""
        if not pages.is_open(scope["path"]):
            await self._answer(scope, receive, send, None, pages)
            return
        answer = _Answer(pages.sending(send), request_id(scope))
        try:
            await pages.open({**scope, REQUEST_ID: answer.request_id}, receive, answer.send)
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is answered
            if (reason := _reason(raised)) is not None:
                metrics.count_denied(reason)
            await self._fail(answer, raised, scope, receive, pages)

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        place: Place | None,
        pages: Pages | None = None,
    ) -> None:
        """Answer somebody who has to be known: by a token, or to `pages` by a session."""
        visit = None
        answer = _Answer(send if pages is None else pages.sending(send), request_id(scope))
        try:
            if pages is None:
                principal = await self._who(scope)
            else:
                visit = await pages.who(scope)
                principal = visit.principal
            leave_place = self._limiter.enter(principal)
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is answered
            if (reason := _reason(raised)) is not None:
                metrics.count_denied(reason)
            await answer.refuse(self._refusal(raised, scope, pages), scope, receive)
            return
        if visit is not None and pages is not None:
            answer = _Answer(pages.sending(send, visit), answer.request_id)
        counted = _Counted(leave_place)
        leave = counted.opens_stream
        here = Current(_surface(place, principal, scope["path"]))
        token = CURRENT.set(here)
        try:
            admitted = self._admitted(scope, principal, answer.request_id, leave, leave_place, place)
            scope = {
                **scope,
                "headers": [header for header in scope["headers"] if header[0] not in _PRIVATE],
                ADMITTED: admitted,
                VISIT: visit,
                "app": self,
            }
            routes = self._api if pages is None else pages.routes
            doing = self._do(scope, receive, answer.send, admitted, place, routes)
            await self._until_revoked(principal, answer, doing, scope, receive, pages)
        finally:
            CURRENT.reset(token)
            counted.end()
            metrics.count_request(here.surface, principal.role, here.outcome or answer.outcome)

    async def _who(self, scope: Scope) -> Principal:
        try:
            token = bearer_token(scope["headers"])
        except MissingTokenError:
            token = None
        client = scope.get("client")
        return await self._principals.of(token, client[0] if client else "")

    def _admitted(
        self,
        scope: Scope,
        principal: Principal,
        request_id: str,
        leave: Callable[[], None],
        leave_place: Callable[[], None],
        place: Place | None,
    ) -> Admitted:
        def subscribes() -> None:
            try:
                self._limiter.subscribe(principal)
            except LimitExceededError as error:
                metrics.count_denied(error.kind)
                data = {"type": "limit_exceeded", "retry_after_ms": round(error.retry_after * 1000)}
                raise McpError(LIMIT_EXCEEDED, str(error), data) from None

        return Admitted(
            principal=principal,
            path=scope["path"] if place is None else place.path,
            request_id=request_id,
            headers={
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in scope["headers"]
                if name not in _PRIVATE
            },
            opens_stream=leave,
            passes_place=leave_place,
            subscribes=subscribes,
            most_subscriptions=self._limiter.limits.subscriptions,
            longest_body=self._settings.max_request_bytes,
        )

    async def _do(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        admitted: Admitted,
        place: Place | None,
        routes: Router,
    ) -> None:
        if place is None:
            await routes(scope, receive, send)
            return
        if scope["method"] not in MCP_METHODS:
            raise HTTPException(405)
        surface = self._surfaces.at(place, admitted.principal)
        await self._endpoint(scope, receive, send, admitted, surface)

    async def _until_revoked(
        self,
        principal: Principal,
        answer: _Answer,
        doing: Awaitable[None],
        scope: Scope,
        receive: Receive,
        pages: Pages | None,
    ) -> None:
        """Do it, as long as the principal's token or session counts."""
        task = asyncio.current_task()
        revoked = False

        def end() -> None:
            nonlocal revoked
            # Who revokes the own token is told that it is done.
            if task is not None and task is not asyncio.current_task():
                revoked = True
                task.cancel()

        self._in_flight.enter(principal, end)
        try:
            await doing
        except asyncio.CancelledError:
            if not revoked or task is None or task.uncancel():
                raise
            await self._fail(answer, InvalidTokenError("this token counts no more"), scope, receive, pages)
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is answered
            await self._fail(answer, raised, scope, receive, pages)
        finally:
            self._in_flight.leave(principal, end)

    async def _fail(
        self, answer: _Answer, raised: Exception, scope: Scope, receive: Receive, pages: Pages | None
    ) -> None:
        if isinstance(raised, ClientDisconnect):  # in the middle of a body: nobody is there to be answered
            return
        if isinstance(raised, InsufficientScopeError) and not answer.status:
            metrics.count_denied("scope")
        if isinstance(raised, NoSuchPlaceError):
            raised = ApiError(404, "not_found", str(raised) or "there is nothing here")
        await answer.refuse(self._refusal(raised, scope, pages), scope, receive)

    def _refusal(self, raised: Exception, scope: Scope, pages: Pages | None) -> Response:
        if isinstance(raised, HTTPException):
            refusal = unrouted(raised, scope, self._api if pages is None else pages.table(scope["path"]))
        else:
            refusal = self._refusals.of(raised, scope["path"])
        return refusal if pages is None else pages.refusal(raised, refusal, scope)


class _Counted:
    """A request in the limits and in the metrics: until it is over, or known to be a stream."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave
        self._is_stream = False
        metrics.add_in_flight(1)

    def opens_stream(self) -> None:
        """It holds no place any more."""
        if not self._is_stream:
            self._is_stream = True
            self._leave()
            metrics.add_in_flight(-1)
            metrics.add_stream(1)

    def end(self) -> None:
        """It is over."""
        if self._is_stream:
            metrics.add_stream(-1)
        else:
            self._leave()
            metrics.add_in_flight(-1)


class _Answer:
    """One answer: its headers that all have, and how far it has come."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.status = 0
        self._is_whole = False

    async def send(self, message: Message) -> None:
        """Send on; `HEADERS` and the request's id go with every answer that does not say otherwise."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            said = {name.lower() for name, _ in headers}
            headers += [header for header in _COMMON if header[0] not in said]
            headers.append((b"x-request-id", self.request_id.encode()))
            message = {**message, "headers": headers}
        elif message["type"] == "http.response.body":
            self._is_whole = not message.get("more_body", False)
        await self._send(message)

    @property
    def outcome(self) -> str:
        """How it went, as far as HTTP says."""
        if not self._is_whole:
            return "cancelled"
        return {403: "denied", 429: "limited"}.get(self.status, "ok" if self.status < 400 else "error")

    async def refuse(self, refusal: Response, scope: Scope, receive: Receive) -> None:
        """Send this instead of what was meant; what has begun is only ended."""
        if not self.status:
            await refusal(scope, receive, self.send)
        elif not self._is_whole:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})


_COMMON = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


def _surface(place: Place | None, principal: Principal, path: str) -> str:
    """What is asked, for metrics."""
    if place is None:
        if path.startswith(OPENAI):
            return "completions"
        return "api" if path.startswith(f"{API}/") else "pages"
    if place.kind == "role":
        return "compositor" if principal.role == "agent" else "management"
    return place.kind


def _reason(raised: Exception) -> str | None:
    """Why somebody is not let in, for metrics; None for what is our own failure."""
    match raised:
        case AuthenticationError():
            return raised.reason
        case LimitExceededError():
            return raised.kind
    return None
