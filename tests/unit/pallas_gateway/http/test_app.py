"""The gateway's port: who is let in, how much, and what nobody is told."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pallas_common.protocol.gateway import GatewaySettings, Limits, Oidc
from pallas_common.secrets.tokens import new_token
from pallas_gateway.access.audit import AuditUnavailableError
from pallas_gateway.access.limits import Limiter
from pallas_gateway.http.app import GatewayApp
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.places import NoSuchPlaceError, Place
from pallas_gateway.http.requests import admitted_of, read_json
from pallas_gateway.identity.errors import MalformedRecordError
from pallas_gateway.identity.grants import Permission
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.principals import Principals
from pallas_gateway.mcp.surface import InsufficientScopeError, McpError
from support.gateway.tokens import TokensInMemory, WorkersInMemory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send

    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.admitted import Admitted
    from pallas_gateway.mcp.surface import Surface

URL = "https://agents.example.com"
META = f"{URL}/.well-known/oauth-protected-resource"


@dataclass
class Answer:
    """What a client has got so far."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_whole: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            assert not self.status
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            assert not self.is_whole
            self.body += message.get("body", b"")
            self.is_whole = not message.get("more_body", False)


class Port:
    """The application, with an endpoint and routes of the test's own."""

    def __init__(self, *, anybody: bool = False, oidc: Oidc | None = None, **limits: Any) -> None:
        self.now = 1000.0
        self.stored, self.workers, self.in_flight = TokensInMemory(), WorkersInMemory(), InFlight()
        self.principals = Principals(
            self.stored,
            self.workers,
            self.in_flight,
            anybody=anybody,
            monotonic=lambda: self.now,
            clock=lambda: self.now,
        )
        settings = GatewaySettings(bind="127.0.0.1", public_url=URL, oidc=oidc, limits=Limits(**limits))
        self.seen: list[Admitted] = []
        self.scopes: list[Scope] = []
        self.open = asyncio.Event()
        self.go_on = asyncio.Event()
        self.health = "ok"
        self.raised: Exception | None = None
        self.app = GatewayApp(
            settings,
            self.principals,
            Limiter(settings.limits, lambda: self.now),
            self.in_flight,
            endpoint=self.endpoint,
            surfaces=self,
            health=lambda: self.health,  # type: ignore[arg-type,return-value]
            routes=[
                Route("/api/v1/who", self.who, methods=["GET"]),
                Route("/api/v1/who", self.who, methods=["PATCH"]),
                Route("/api/v1/take", self.take, methods=["PUT"]),
            ],
        )

    def at(self, place: Place, principal: Principal) -> Surface:
        if place.name == "hidden":
            raise NoSuchPlaceError
        if place.name == "barred":
            raise InsufficientScopeError(Permission("run", "agents", place.name))
        return None  # type: ignore[return-value]

    async def endpoint(
        self, scope: Scope, receive: Receive, send: Send, admitted: Admitted, surface: Surface
    ) -> None:
        self.seen.append(admitted)
        self.scopes.append(scope)
        if self.raised is not None:
            raise self.raised
        if scope["method"] == "GET":
            admitted.opens_stream()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        if scope["method"] != "DELETE":
            self.open.set()
            await self.go_on.wait()
        await Response(b"{}")(scope, receive, send)

    async def who(self, request: Request) -> Response:
        admitted = admitted_of(request)
        return JSONResponse({"id": admitted.principal.id, "private": "authorization" in request.headers})

    async def take(self, request: Request) -> Response:
        if self.raised is not None:
            raise self.raised
        return JSONResponse(await read_json(request, 100))

    async def ask(
        self,
        path: str,
        token: str | None = None,
        method: str = "POST",
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        into: Answer | None = None,
    ) -> Answer:
        said = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        if token is not None:
            said.append((b"authorization", f"Bearer {token}".encode()))
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": said,
            "client": ("192.0.2.1", 5),
        }
        answer = into or Answer()

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, receive, answer.send)
        return answer


def run(test: Callable[[Port], Awaitable[None]], **settings: Any) -> None:
    async def whole() -> None:
        await test(Port(**settings))

    asyncio.run(whole())


def test_health_says_no_more_than_that() -> None:
    async def test(port: Port) -> None:
        for said, status in (("ok", 200), ("degraded", 200), ("error", 503)):
            port.health = said
            answer = await port.ask("/health", method="GET")
            assert (answer.status, answer.json) == (status, {"status": said})
        assert (await port.ask("/health", method="POST")).status == 405
        assert (await port.ask("/livez", method="GET")).status == 200

    run(test)


@pytest.mark.parametrize("place", ["/mcp", "/mcp/agents/jarvis", "/mcp/projects/p"])
def test_metadata_of_each_server(place: str) -> None:
    async def test(port: Port) -> None:
        document = (await port.ask(f"/.well-known/oauth-protected-resource{place}", method="GET")).json
        assert document["resource"] == f"{URL}{place}"
        assert document["bearer_methods_supported"] == ["header"]
        assert {"run:agents", "edit:code"} <= set(document["scopes_supported"])
        assert document["authorization_servers"] == ["https://issuer.example.com"]

    run(test, oidc=Oidc(issuer="https://issuer.example.com", audience=("x",)))


def test_metadata_without_a_path_is_that_of_mcp() -> None:
    async def test(port: Port) -> None:
        document = (await port.ask("/.well-known/oauth-protected-resource", method="GET")).json
        assert document["resource"] == f"{URL}/mcp"
        assert "authorization_servers" not in document
        assert (await port.ask("/.well-known/oauth-protected-resource/x", method="GET")).status == 404

    run(test)


def test_what_is_not_there_needs_no_token() -> None:
    async def test(port: Port) -> None:
        for path in (
            "/",
            "/mcpx",
            "/mcp/agents/",
            "/mcp//",
            "/mcp/agents/a/b",
            "/mcp/agents/../x",
            "/mcp/other/x",
            "/api",
        ):
            answer = await port.ask(path, port.stored.make("tok_1"))
            error = answer.json["error"]
            assert (answer.status, error.get("type") or error["data"]["type"]) == (404, "not_found")
        assert not port.seen

    run(test)


def test_without_a_token_one_is_told_where_to_get_one() -> None:
    async def test(port: Port) -> None:
        answer = await port.ask("/mcp/agents/jarvis")
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == f'Bearer resource_metadata="{META}/mcp/agents/jarvis"'
        answer = await port.ask("/api/v1/who", method="GET")
        assert answer.headers["www-authenticate"] == f'Bearer resource_metadata="{META}/mcp"'
        answer = await port.ask("/mcp", new_token("human"))
        assert answer.status == 401
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        answer = await port.ask("/mcp/agents/jarvis/")
        assert answer.headers["www-authenticate"] == f'Bearer resource_metadata="{META}/mcp/agents/jarvis"'
        answer = await port.ask("/mcp", "x", headers={"Authorization": "Bearer y"})
        assert answer.status == 400
        assert not port.seen

    run(test)


def test_a_damaged_record_and_a_store_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async def test(port: Port) -> None:
        text = new_token("human")
        port.stored.put(text, MalformedRecordError("tok_bad", "grants"))
        answer = await port.ask("/mcp", text)
        assert answer.status == 500
        assert b"tok_bad" not in answer.body
        port.stored.failure = OSError()
        answer = await port.ask("/mcp", new_token("human"))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")

    with caplog.at_level(logging.ERROR):
        run(test)


def test_the_token_goes_no_further() -> None:
    async def test(port: Port) -> None:
        text = port.stored.make("tok_1")
        headers = {"Cookie": "a=b", "X-Other": "x", "Proxy-Authorization": "c"}
        port.go_on.set()
        answer = await port.ask("/mcp", text, headers=headers)
        assert answer.status == 200
        assert port.seen[0].headers == {"x-other": "x"}
        assert [name for name, _ in port.scopes[0]["headers"]] == [b"x-other"]
        assert text not in repr(port.scopes[0])
        assert (await port.ask("/api/v1/who", text, "GET")).json == {"id": "tok_1", "private": False}

    run(test)


def test_answers_have_an_id_and_are_not_kept_by_others() -> None:
    async def test(port: Port) -> None:
        text = port.stored.make("tok_1")
        answer = await port.ask("/api/v1/who", text, "GET", headers={"X-Request-Id": "job-12345678"})
        assert answer.headers["x-request-id"] == "job-12345678"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        answer = await port.ask("/mcp", headers={"X-Request-Id": "a b\nc" * 30})
        assert len(answer.headers["x-request-id"]) == 16

    run(test)


def test_too_little_scope_and_places_that_one_may_not_know_of() -> None:
    async def test(port: Port) -> None:
        text = port.stored.make("tok_1")
        assert (await port.ask("/mcp/agents/hidden", text)).status == 404
        answer = await port.ask("/mcp/agents/barred", text)
        assert answer.status == 403
        said = answer.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in said
        assert 'scope="run:agents:barred"' in said
        assert f'resource_metadata="{META}/mcp/agents/barred"' in said

    run(test)


def test_methods() -> None:
    async def test(port: Port) -> None:
        text = port.stored.make("tok_1")
        answer = await port.ask("/mcp", text, "PUT")
        assert (answer.status, answer.json["error"]["data"]["type"]) == (405, "method_not_allowed")
        assert answer.headers["allow"] == "DELETE, GET, POST"
        answer = await port.ask("/api/v1/who", text, "POST")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, PATCH")
        message = "POST is not for this path, which takes GET, HEAD, PATCH"
        assert answer.json == {"error": {"type": "method_not_allowed", "message": message}}
        answer = await port.ask("/api/v1/nothing", text, "GET")
        assert (answer.status, answer.json["error"]["message"]) == (
            404,
            "there is nothing at /api/v1/nothing",
        )

    run(test)


def test_bodies_of_the_api() -> None:
    async def test(port: Port) -> None:
        text = port.stored.make("tok_1")

        async def put(body: bytes, kind: str = "application/json") -> int:
            return (
                await port.ask("/api/v1/take", text, "PUT", body=body, headers={"Content-Type": kind})
            ).status

        assert await put(b'{"a": 1}') == 200
        assert await put(b"") == 200
        assert await put(b"[]") == 400
        assert await put(b"{") == 400
        assert await put(b"[" * 99) == 400
        assert await put(rb'{"a": "\ud83d\ude00"}') == 200
        assert await put(rb'{"a": ["\ud83d"]}') == 400
        assert await put(b" " * 101) == 413
        assert await put(b"{}", "text/plain") == 415

    run(test)


@pytest.mark.parametrize(
    ("raised", "status", "type"),
    [
        (ApiError(409, "conflict", "no", field="name"), 409, "conflict"),
        (InsufficientScopeError(Permission("edit", "resources", "llm/x")), 403, "insufficient_scope"),
        (AuditUnavailableError("full"), 503, "audit_unavailable"),
        (RuntimeError("secret detail"), 500, "internal"),
    ],
)
def test_what_handlers_raise_is_answered(raised: Exception, status: int, type: str) -> None:  # noqa: A002
    async def test(port: Port) -> None:
        port.raised = raised
        answer = await port.ask("/api/v1/take", port.stored.make("tok_1"), "PUT")
        assert (answer.status, answer.json["error"]["type"]) == (status, type)
        assert b"secret detail" not in answer.body

    run(test)


def test_limits_are_told_before_the_body_is_read() -> None:
    async def test(port: Port) -> None:
        text = port.stored.make("tok_1")
        for _ in range(3):
            assert (await port.ask("/mcp", text, "DELETE")).status == 200
        answer = await port.ask("/mcp", text)
        assert answer.status == 429
        assert answer.headers["retry-after"] == "20"
        assert answer.json["id"] is None
        assert answer.json["error"]["code"] == -32954
        assert 19_000 < answer.json["error"]["data"]["retry_after_ms"] <= 20_000
        answer = await port.ask("/api/v1/who", text, "GET")
        assert (answer.status, answer.json["error"]["type"]) == (429, "limit_exceeded")
        port.now += 20
        assert (await port.ask("/mcp", text, "DELETE")).status == 200

    run(test, requests_per_minute=3)


def test_those_at_a_time_are_limited_and_streams_are_not_among_them() -> None:
    async def test(port: Port) -> None:
        text = port.stored.make("tok_1")
        stream = asyncio.create_task(port.ask("/mcp", text, "GET"))
        await port.open.wait()
        port.open.clear()
        running = asyncio.create_task(port.ask("/mcp", text))
        await port.open.wait()
        assert (await port.ask("/mcp", text)).status == 429
        other = port.stored.make("tok_2")
        assert (await port.ask("/mcp", other, "DELETE")).status == 200
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert (await port.ask("/mcp", text, "DELETE")).status == 200
        assert len(port.in_flight) == 1
        stream.cancel()
        await asyncio.gather(stream, return_exceptions=True)
        assert len(port.in_flight) == 0

    run(test, concurrent=1)


def test_subscribing_has_a_rate_of_its_own() -> None:
    async def test(port: Port) -> None:
        await port.ask("/mcp", port.stored.make("tok_1"), "DELETE")
        port.seen[0].subscribes()
        with pytest.raises(McpError) as raised:
            port.seen[0].subscribes()
        assert raised.value.code == -32954
        assert raised.value.data is not None
        assert raised.value.data["retry_after_ms"] == 60_000

    run(test, subscriptions_per_minute=1)


def test_a_revoked_token_ends_its_streams_and_requests() -> None:
    async def test(port: Port) -> None:
        mine, others = port.stored.make("tok_1"), port.stored.make("tok_2")
        stream, kept = Answer(), Answer()
        tasks = []
        for text, method, into in ((mine, "GET", stream), (others, "GET", kept), (mine, "POST", Answer())):
            port.open.clear()
            tasks.append(asyncio.create_task(port.ask("/mcp", text, method, into=into)))
            await port.open.wait()
        port.stored.revoke(mine)
        await port.principals.recheck()
        assert await tasks[0] is stream
        assert (stream.body, stream.is_whole) == (b"begun", True)
        request = await tasks[2]
        assert request.status == 401
        assert 'error="invalid_token"' in request.headers["www-authenticate"]
        assert not kept.is_whole
        assert len(port.in_flight) == 1
        tasks[1].cancel()

    run(test)


def test_who_revokes_the_own_token_hears_that_it_is_done() -> None:
    async def test(port: Port) -> None:
        text = port.stored.make("tok_1")

        async def revoke(request: Request) -> Response:
            port.stored.revoke(text)
            await port.principals.recheck()
            return JSONResponse({})

        port.app._api.routes.append(Route("/api/v1/revoke", revoke, methods=["POST"]))
        assert (await port.ask("/api/v1/revoke", text)).status == 200
        assert (await port.ask("/api/v1/revoke", text)).status == 401

    run(test)


def test_with_auth_none_no_token_is_needed() -> None:
    async def test(port: Port) -> None:
        assert (await port.ask("/api/v1/who", None, "GET")).json["id"] == "anybody"
        assert (await port.ask("/api/v1/who", "wrong", "GET")).status == 401

    run(test, anybody=True)
