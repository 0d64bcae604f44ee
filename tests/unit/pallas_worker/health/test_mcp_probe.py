"""Probes of downstream servers, against real servers of both protocol eras on loopback."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from fakes.downstream import Era, Fault, Recorded, RunningDownstream, run_downstream
from fakes.loopback import serve
from pallas_worker.downstreams.facts import Downstream
from pallas_worker.health.handshakes import AnswerError, agreed_version, read_result
from pallas_worker.health.http_errors import describe
from pallas_worker.health.mcp_probe import Prober
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.requests import Request

    from pallas_common.protocol.reports import DownstreamHealth


def http(url: str, **fields: Any) -> Downstream:
    return Downstream(name="argos", transport="http", url=url, **fields)


def probe(*servers: Downstream, timeout: float = 60.0) -> list[DownstreamHealth]:
    """Probe the servers one after another with one prober."""

    async def run() -> list[DownstreamHealth]:
        async with Prober(timeout) as prober:
            return [await prober.probe(server) for server in servers]

    return asyncio.run(run())


@pytest.fixture
def downstream() -> Iterator[RunningDownstream]:
    with run_downstream() as running:
        yield running


@pytest.mark.parametrize("json_response", [True, False])
def test_a_modern_server_is_asked_once_each_time(json_response: bool) -> None:
    with run_downstream(era="modern", json_response=json_response) as running:
        first, second = probe(*[http(running.url)] * 2)
        assert first.up
        assert second.up
        assert first.error is None
        assert (first.latency or 0) > 0
        assert running.methods == ["server/discover"] * 2


@pytest.mark.parametrize("json_response", [True, False])
def test_a_legacy_server_gets_its_session_back_and_is_remembered(json_response: bool) -> None:
    with run_downstream(era="legacy", json_response=json_response) as running:
        assert [health.up for health in probe(*[http(running.url)] * 2)] == [True, True]
        assert running.methods == ["server/discover", "initialize", "DELETE", "initialize", "DELETE"]
        delete = running.requests[2].headers
        assert delete["mcp-session-id"]
        assert delete["mcp-protocol-version"] == "2025-11-25"


def test_a_stateless_legacy_server_has_no_session_to_end() -> None:
    with run_downstream(era="legacy", stateless=True) as running:
        assert probe(http(running.url))[0].up
        assert running.methods == ["server/discover", "initialize"]


@pytest.mark.parametrize(("before", "after"), [("legacy", "modern"), ("modern", "legacy")])
def test_a_server_that_changes_its_era_is_found_again(before: Era, after: Era) -> None:
    (port,) = free_ports(1)  # one that the kernel chose might be given to somebody else meanwhile

    async def run() -> list[bool]:
        async with Prober(60.0) as prober:
            with run_downstream(era=before, port=port) as running:
                up = [(await prober.probe(http(running.url))).up]
            with run_downstream(era=after, port=port) as running:
                return [*up, (await prober.probe(http(running.url))).up]

    assert asyncio.run(run()) == [True, True]


def test_the_configured_headers_ride_on_every_request_and_ours_win() -> None:
    headers = {"Authorization": "Bearer configured", "X-Tenant": "blue", "Accept": "text/html"}
    with run_downstream(era="legacy") as running:
        assert probe(http(running.url, headers=headers))[0].up
        for request in running.requests:
            assert request.headers["authorization"] == "Bearer configured"
            assert request.headers["x-tenant"] == "blue"
        assert running.requests[0].headers["accept"] == "application/json, text/event-stream"


@pytest.mark.parametrize(
    ("status", "fields", "error"),
    [
        (500, {}, "HTTP 500"),
        (404, {}, "HTTP 404"),
        (429, {}, "HTTP 429"),
        (401, {}, "HTTP 401: wants credentials, none are configured"),
        (403, {"headers": {"authorization": "x"}}, "HTTP 403: refuses the configured Authorization"),
        (401, {"forward_inbound_auth": True}, None),
        (403, {"forward_inbound_auth": True}, None),
        (
            401,
            {"forward_inbound_auth": True, "headers": {"authorization": "x"}},
            "HTTP 401: refuses the configured Authorization",
        ),
        (500, {"forward_inbound_auth": True}, "HTTP 500"),
    ],
)
def test_statuses(
    downstream: RunningDownstream, status: int, fields: dict[str, Any], error: str | None
) -> None:
    downstream.fault = Fault(status=status)
    (health,) = probe(http(downstream.url, **fields))
    assert (health.up, health.error) == (error is None, error)
    assert len(downstream.requests) == (1 if status in {401, 403} else 2)


def test_a_reset_a_refusal_and_a_comeback(downstream: RunningDownstream) -> None:
    async def run() -> list[DownstreamHealth]:
        async with Prober(60.0) as prober:
            server = http(downstream.url)
            downstream.fault = Fault(reset=True)
            healths = [await prober.probe(server)]
            downstream.fault = None
            healths.append(await prober.probe(server))
            await asyncio.to_thread(downstream.stop)
            return [*healths, await prober.probe(server)]

    reset, good, refused = asyncio.run(run())
    assert (reset.up, reset.error) == (False, "the connection broke off")
    assert good.up
    assert (refused.up, refused.error) == (False, "cannot connect")


def test_a_server_that_does_not_answer_is_given_up() -> None:
    with run_downstream(hold=True) as running:
        (health,) = probe(http(running.url), timeout=0.2)
    assert (health.up, health.error) == (False, "no answer within 0.2 s")


def test_a_server_that_never_answers_an_unknown_method_is_asked_the_other_way_next() -> None:
    def fault(request: Recorded) -> Fault | None:
        return Fault(hold=True) if request.rpc_method == "server/discover" else None

    with run_downstream(fault=fault) as running:
        first, second, third = probe(*[http(running.url)] * 3, timeout=4.0)
    assert (first.up, second.up, third.up) == (False, True, True)


def test_a_session_that_does_not_end_does_not_spoil_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pallas_worker.health.mcp_probe.FAREWELL_TIMEOUT", 0.05)

    def fault(request: Recorded) -> Fault | None:
        return Fault(hold=True) if request.method == "DELETE" else None

    with run_downstream(era="legacy", fault=fault) as running:
        assert probe(http(running.url))[0].up


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_is_followed_on_its_own_origin_only(status: int, downstream: RunningDownstream) -> None:
    secret = {"x-api-key": "secret"}
    with run_downstream() as trap:
        downstream.fault = Fault(status=status, headers={"location": trap.url})
        (health,) = probe(http(downstream.url, headers=secret))
        assert (health.up, health.error) == (False, "redirects to another origin or method; not followed")
        assert trap.requests == []

    def to_mcp(request: Recorded) -> Fault | None:
        return Fault(status=status, headers={"location": "/mcp"}) if request.path == "/old" else None

    downstream.fault = to_mcp
    assert probe(http(downstream.url.replace("/mcp", "/old"), headers=secret))[0].up
    downstream.fault = Fault(status=status, headers={"location": "/mcp"})
    assert probe(http(downstream.url))[0].error == "redirects without end"
    downstream.fault = Fault(status=302, headers={"location": "/mcp"})
    assert probe(http(downstream.url))[0].error == "redirects to another origin or method; not followed"


def test_cookies_of_one_server_are_not_sent_to_another(downstream: RunningDownstream) -> None:
    downstream.fault = Fault(status=200, headers={"set-cookie": "session=secret; Path=/"})
    with run_downstream() as second:
        probe(http(downstream.url), http(second.url))
        assert all("cookie" not in request.headers for request in second.requests)


@pytest.mark.parametrize(
    "url", ["", "not a url", "http://", "http://127.0.0.1:99999/mcp", "http://a:b:c/", "ftp://a/"]
)
def test_a_bad_url_is_said(url: str) -> None:
    assert probe(http(url))[0].error == "the URL is not valid"


@pytest.mark.parametrize("value", ["Bearer s3cret\n", "Bearer s3cr\u00e9t"])
def test_a_bad_header_is_said_without_its_value_and_not_sent(
    downstream: RunningDownstream, value: str
) -> None:
    (health,) = probe(http(downstream.url, headers={"authorization": value}))
    assert health.error == "a configured header is not valid"
    assert downstream.requests == []


def test_tls_to_a_server_without_tls(downstream: RunningDownstream) -> None:
    url = downstream.url.replace("http:", "https:")
    assert probe(http(url))[0].error == "cannot connect: TLS failed"


@pytest.mark.parametrize(
    ("body", "content_type", "error"),
    [
        ("<html>", "text/html", "does not answer as an MCP server"),
        ("{", "application/json", "the answer is not JSON"),
        ("[" * 100_000, "application/json", "the answer is not JSON"),
        ("[]", "application/json", "the answer is not a JSON-RPC message"),
        ('{"jsonrpc":"2.0","id":1}', "application/json", "the answer has no result"),
        ('{"error":{"code":-32601,"message":"s3cret"}}', "application/json", "JSON-RPC error -32601"),
        ('{"result":{}}', "application/json", "answers initialize without a protocol version"),
        (": ping\n\ndata: {}\n\n", "text/event-stream", "does not answer as an MCP server"),
        ("x" * ((1 << 20) + 1), "application/json", "the answer is too long"),
        ("data: x\n" * (1 << 18), "text/event-stream", "the answer is too long"),
    ],
)
def test_what_is_not_an_mcp_server(body: str, content_type: str, error: str) -> None:
    async def answer(_: Request) -> Response:
        return Response(body, media_type=content_type)

    with serve(Starlette(routes=[Route("/mcp", answer, methods=["POST"])])) as server:
        assert probe(http(f"{server.origin}/mcp"))[0].error == error


def test_an_event_stream_is_read_only_to_its_first_response() -> None:
    async def stream() -> Any:
        yield b'event: message\ndata: {"method": "notifications/message"}\n\n'
        yield b'data: {"jsonrpc":\r\ndata:  "2.0", "result": {"protocolVersion": "2025-11-25"}}\r\n\r\n'
        raise AssertionError("read on")

    response = httpx.Response(
        200, headers={"content-type": "text/event-stream; charset=utf-8"}, content=stream()
    )
    assert asyncio.run(read_result(response)) == {"protocolVersion": "2025-11-25"}


def test_the_version_that_both_know_is_agreed_on() -> None:
    assert agreed_version("modern", {"supportedVersions": ["2027-01-01", "2026-07-28"]}) == "2026-07-28"
    for result in ({}, {"supportedVersions": ["2025-11-25"]}, {"supportedVersions": 1}):
        with pytest.raises(AnswerError):
            agreed_version("modern", result)


def test_sse_needs_an_event_stream(downstream: RunningDownstream) -> None:
    def sse(url: str, **fields: Any) -> Downstream:
        return Downstream(name="old", transport="sse", url=url, **fields)

    assert probe(sse(downstream.sse_url, headers={"x-key": "k"}))[0].up
    assert downstream.requests[0].headers["x-key"] == "k"
    assert probe(sse(downstream.sse_url + "x"))[0].error == "HTTP 404"
    downstream.fault = Fault(status=200)
    assert probe(sse(downstream.sse_url))[0].error == "does not answer with an event stream"
    downstream.fault = Fault(status=401)
    assert probe(sse(downstream.sse_url, forward_inbound_auth=True))[0].up


def test_stdio_needs_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "bin" / "tool"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\n")

    def up(**fields: Any) -> bool:
        (health,) = probe(Downstream(name="local", transport="stdio", **fields))
        assert health.up or "is not found" in (health.error or "")
        return health.up

    assert not up(command=str(command))
    command.chmod(stat.S_IRWXU)
    assert up(command=str(command))
    assert up(command="./bin/tool", cwd=str(tmp_path))
    assert not up(command="./bin/tool")
    assert not up(command="tool")
    assert up(command="tool", env={"PATH": f"/nowhere{os.pathsep}{command.parent}"})
    assert up(command="tool", env={"PATH": "bin"}, cwd=str(tmp_path))
    monkeypatch.setenv("PATH", str(command.parent))
    assert up(command="tool")
    assert not up(command="tool", env={"PATH": "/nowhere"})
    assert not up(command=None)
    assert not up(command="tool", cwd=None, env={"PATH": ""})


def test_an_unroutable_host_is_only_a_failed_connection() -> None:
    with socket.socket() as taken:  # bound, not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        assert probe(http(f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"))[0].error == "cannot connect"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (httpx.PoolTimeout("x"), "no answer in time"),
        (httpx.DecodingError("s3cret"), "DecodingError"),
        (httpx.ReadError("s3cret"), "the connection broke off"),
    ],
)
def test_errors_are_described_in_our_own_words(error: Exception, text: str) -> None:
    assert describe(error) == text
