"""What a client may send that no client should: each is answered within bounds, and nothing of it is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pallas_common.http.json_bounds import DEEPEST, MOST_VALUES, has_too_many_values
from pallas_gateway.mcp import methods, wire
from support.gateway.mcp.raw import ACCEPT, INITIALIZE, open_session, post, stateless
from support.gateway.mcp.toy import Toy, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextlib.asynccontextmanager
async def toy_and_client(**settings: Any) -> AsyncIterator[tuple[Toy, httpx.AsyncClient]]:
    async with serve(Toy(**settings)) as toy, httpx.AsyncClient() as client:
        yield toy, client


def message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", **members}).encode()


DEEP = b"[" * 100_000
BODIES = {
    "nothing": (b"", -32700),
    "no JSON": (b"{", -32700),
    "two documents": (b"{} {}", -32700),
    "a byte order mark": (b"\xef\xbb\xbf" + message(), -32700),
    "UTF-16": (message().decode().encode("utf-16"), -32700),
    "bytes that are no text": (b'{"jsonrpc": "\xff"}', -32700),
    "NaN": (message(params={"x": float("nan")}), -32700),
    "a number of 5,000 digits": (b'{"id": ' + b"9" * 5000 + b"}", -32700),
    "deep lists": (DEEP, -32600),
    "deep lists that end": (
        message(params={"x": 1}).replace(b"1}}", b"[" * 500 + b"]" * 500 + b"}}"),
        -32600,
    ),
    "too many values": (message(params={"x": [0] * (MOST_VALUES + 1)}), -32600),
    "a batch": (b"[" + message() + b"]", -32600),
    "an empty batch": (b"[]", -32600),
    "null": (b"null", -32600),
    "a string": (b'"ping"', -32600),
    "another version of JSON-RPC": (message(jsonrpc="1.0"), -32600),
    "no method": (b'{"jsonrpc": "2.0", "id": 1}', -32600),
    "a method that is none": (message(method=7), -32600),
    "a method without end": (message(method="x" * 10_000), -32600),
    "parameters that are a list": (message(params=[1]), -32600),
    "parameters that are null": (message(params=None), -32600),
    "no id": (message(id=None), -32600),
    "an id that is true": (message(id=True), -32600),
    "an id with a fraction": (message(id=1.5), -32600),
    "an id that is an object": (message(id={}), -32600),
    "an id without end": (message(id="x" * 10_000), -32600),
    "an id of 100 digits": (message(id=10**100), -32600),
    "a response with both": (b'{"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}', -32600),
}


@pytest.mark.parametrize("what", BODIES)
async def test_bodies(what: str) -> None:
    body, code = BODIES[what]
    async with toy_and_client() as (toy, client):
        session = await open_session(client, toy.url)
        for headers in (session.headers, stateless("ping")[1]):
            answer = await client.post(toy.url, content=body, headers=headers)
            found = answer.json()
            assert (answer.status_code, found["id"], found["error"]["code"]) == (400, None, code)
            assert len(answer.content) < 400
        assert (await session.ask("ping"))["result"] == {}


def test_what_is_just_within_bounds_is_read() -> None:
    depth = DEEPEST - 2
    for value in ("[" * depth + "]" * depth, json.dumps("[{," * MOST_VALUES), '"\\ud800"'):
        body = f'{{"jsonrpc": "2.0", "id": "a", "method": "m", "params": {{"x": {value}}}}}'.encode()
        assert wire.read_message(body).id == "a"


@pytest.mark.parametrize("unit", [b'"', b'"ab', b'\\"', b"\\", b'["a",'])
@pytest.mark.parametrize("begin", [b"", b'"'])
def test_a_body_is_counted_in_little_space_and_one_pass(begin: bytes, unit: bytes) -> None:
    body = b"[" + b"1," * (MOST_VALUES - 10) + begin + unit * (8 * 1024 * 1024 // len(unit)) + b"," * 100
    tracemalloc.start()
    try:
        has_too_many_values(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1024 * 1024


def test_an_answer_that_is_mostly_space_is_looked_at_once() -> None:
    space = b" " * 1_000_000
    for said, outcome in (
        (b'"result":{"isError":true}', "failed"),
        (b'"error":{}', "error"),
        (b'"result":{}', "ok"),
    ):
        piece = b'data: {"jsonrpc":"2.0","id":' + space + b"7," + said + b"}\n\n"
        assert methods.outcome_in(piece) == outcome


def changed(raw: tuple[bytes, dict[str, str]], **headers: str | None) -> tuple[bytes, dict[str, str]]:
    """A request with other headers."""
    body, before = raw
    after = {**before, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return body, {name: value for name, value in after.items() if value is not None}


CALL = stateless("tools/call", name="echo", arguments={"text": "x"})
REGIONAL = stateless("tools/call", name="regional", arguments={"region": "eu"})
HEADERS = {
    "another method": (changed(CALL, mcp_method="tools/list"), 400, -32020),
    "no method": (changed(CALL, mcp_method=None), 400, -32020),
    "the method in other letters": (changed(CALL, mcp_method="Tools/Call"), 400, -32020),
    "another name": (changed(CALL, mcp_name="fail"), 400, -32020),
    "no name": (changed(CALL, mcp_name=None), 400, -32020),
    "a name in broken base64": (changed(CALL, mcp_name="=?base64?ZWNobw=?="), 400, -32020),
    "a name in base64": (changed(CALL, mcp_name="=?base64?ZWNobw==?="), 200, None),
    "another version": (changed(CALL, mcp_protocol_version="2027-01-01"), 400, -32020),
    "no version": (changed(CALL, mcp_protocol_version=None), 400, -32020),
    "a version of sessions": (changed(CALL, mcp_protocol_version="2025-11-25"), 400, -32600),
    "a version of nothing": (changed((message(), ACCEPT), mcp_protocol_version="x" * 500), 400, -32022),
    "no envelope": (changed((message(), ACCEPT), mcp_protocol_version="2026-07-28"), 400, -32602),
    "half an envelope": (
        changed(
            stateless("tools/list", _meta={"io.modelcontextprotocol/clientCapabilities": 1}), mcp_name=None
        ),
        400,
        -32602,
    ),
    "a parameter that is another": (changed(REGIONAL, mcp_param_region="us"), 400, -32020),
    "a parameter that is missing": (REGIONAL, 400, -32020),
    "a parameter": (changed(REGIONAL, mcp_param_region="eu"), 200, None),
    "JSON alone": (changed(CALL, accept="application/json"), 406, -32600),
    "streams alone": (changed(CALL, accept="text/event-stream"), 406, -32600),
    "JSON refused": (changed(CALL, accept="application/json;q=0, text/event-stream"), 406, -32600),
    "anything": (changed(CALL, accept="*/*"), 200, None),
    "a form": (changed(CALL, content_type="application/x-www-form-urlencoded"), 415, -32600),
    "JSON in UTF-8": (changed(CALL, content_type="Application/JSON; charset=utf-8"), 200, None),
    "an unknown method": (stateless("tools/x"), 404, -32601),
    "a method of sessions": (stateless("ping"), 404, -32601),
    "an unknown tool": (stateless("tools/call", name="gone", arguments={}), 400, -32602),
    "arguments that are none": (stateless("tools/call", name="echo", arguments=[1]), 400, -32602),
    "a name without end": (stateless("tools/call", name="x" * 1000, arguments={}), 400, -32602),
    "a cursor of nobody": (stateless("tools/list", cursor="eA=="), 400, -32602),
    "a cursor that is none": (stateless("tools/list", cursor=7), 400, -32602),
    "a filter that is none": (stateless("subscriptions/listen", notifications=1), 400, -32602),
    "a flag that is none": (
        stateless("subscriptions/listen", notifications={"toolsListChanged": 1}),
        400,
        -32602,
    ),
    "URIs that are none": (
        stateless("subscriptions/listen", notifications={"resourceSubscriptions": [1]}),
        400,
        -32602,
    ),
    "an argument to complete that is none": (
        stateless("completion/complete", ref={"type": "ref/prompt", "name": "x"}, argument={"name": "x"}),
        400,
        -32602,
    ),
}


@pytest.mark.parametrize("what", HEADERS)
async def test_headers_and_parameters(what: str) -> None:
    raw, status, code = HEADERS[what]
    async with toy_and_client() as (toy, client):
        answer = await post(client, toy.url, raw)
        found = answer.json()
        assert (answer.status_code, found.get("error", {}).get("code")) == (status, code)
        assert code is None or answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("name", ["mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"])
async def test_a_header_that_is_there_twice(name: str) -> None:
    async with toy_and_client() as (toy, client):
        body, headers = CALL
        twice = [*headers.items(), (name, headers.get(name, "x")), (name, headers.get(name, "x"))]
        answer = await client.post(toy.url, content=body, headers=twice)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)


async def test_sessions_of_others_do_not_exist() -> None:
    async with toy_and_client() as (toy, client):
        session = await open_session(client, toy.url)
        others: tuple[tuple[dict[str, str], str], ...] = (
            ({"x-principal": "you"}, ""),
            ({}, "/agents/x"),
            ({"mcp-session-id": session.id[:-1]}, ""),
            ({"mcp-session-id": ""}, ""),
        )
        answers = [
            await client.request(
                method, toy.url + path, content=message(), headers={**session.headers, **headers}
            )
            for headers, path in others
            for method in ("POST", "GET", "DELETE")
        ]
        assert {answer.status_code for answer in answers} == {404}
        assert len({answer.content.replace(b'"id":1', b'"id":null') for answer in answers}) == 1
        without = {name: value for name, value in session.headers.items() if name != "mcp-session-id"}
        for method in ("POST", "GET", "DELETE"):
            answer = await client.request(method, toy.url, content=message(), headers=without)
            assert answer.status_code == 400
        again = await client.post(toy.url, json=INITIALIZE, headers=session.headers)
        assert (again.status_code, again.json()["error"]["code"]) == (200, -32600)
        assert (await session.ask("ping"))["result"] == {}
        assert (await client.delete(toy.url, headers=session.headers)).status_code == 204
        assert (await session.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status_code == 404


async def test_methods_of_http() -> None:
    async with toy_and_client() as (toy, client):
        for method, headers, allowed in (
            ("PUT", {}, "POST, GET, DELETE"),
            ("GET", {"mcp-protocol-version": "2026-07-28"}, "POST"),
            ("DELETE", {"mcp-protocol-version": "2026-07-28"}, "POST"),
        ):
            answer = await client.request(method, toy.url, headers=headers)
            assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


async def test_initialize() -> None:
    async with toy_and_client() as (toy, client):
        for asked, spoken in (
            ("2024-11-05", "2024-11-05"),
            ("2025-06-18", "2025-06-18"),
            ("2026-07-28", "2025-11-25"),
            ("1", "2025-11-25"),
        ):
            params = {**INITIALIZE["params"], "protocolVersion": asked}
            opened = await client.post(toy.url, json={**INITIALIZE, "params": params}, headers=ACCEPT)
            assert opened.json()["result"]["protocolVersion"] == spoken
        before = len(toy.endpoint.sessions)
        for params in ({}, {"protocolVersion": 1}, {**INITIALIZE["params"], "capabilities": []}):
            refused = await client.post(toy.url, json={**INITIALIZE, "params": params}, headers=ACCEPT)
            assert refused.json()["error"]["code"] == -32602
            assert "mcp-session-id" not in refused.headers
        assert len(toy.endpoint.sessions) == before


async def test_bodies_that_are_too_large() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    async with toy_and_client(longest_body=10_000) as (toy, client):
        for content in (b" " * 10_001, endless()):
            answer = await client.post(toy.url, content=content, headers=ACCEPT)
            assert answer.status_code == 413


async def test_a_body_that_ends_too_early_leaves_nothing() -> None:
    async with toy_and_client() as (toy, client):
        url = httpx.URL(toy.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        lines = [f"{name}: {value}\r\n" for name, value in ACCEPT.items()]
        writer.write(
            f"POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n{''.join(lines)}\r\n{{".encode()
        )
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        assert (await post(client, toy.url, CALL)).status_code == 200
        assert toy.audit.outcomes == [("toy/echo", "ok")]


async def test_what_needs_no_answer() -> None:
    async with toy_and_client() as (toy, client):
        session = await open_session(client, toy.url)
        for body in (
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {"x": 1}}},
            {"jsonrpc": "2.0", "method": "notifications/whatever", "params": {}},
            {"jsonrpc": "2.0", "id": 7, "result": {}},
        ):
            answer = await session.post(body)
            assert (answer.status_code, answer.content) == (202, b"")
        headers = stateless("notifications/cancelled")[1]
        told = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled"}).encode()
        assert (await client.post(toy.url, content=told, headers=headers)).status_code == 202
