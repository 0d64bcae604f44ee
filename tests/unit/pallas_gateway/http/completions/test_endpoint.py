"""Chat completions at the gateway: they reach the agent's worker as they came, and its answer comes back likewise."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pallas_common.protocol.gateway import AgentUpstream
from pallas_gateway.conversations.worker import WorkerChats
from pallas_gateway.http.completions.routes import completion_routes
from pallas_gateway.http.openapi.operations.completions import PATH
from support.gateway.http.chat_worker import DONE, ChatWorker, chat_worker, piece, stream_head, whole
from support.gateway.http.port import GatewayPort, gateway_port
from support.gateway.mirror import Bench, on_bench

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from support.gateway.http.chat_worker import Answer, ChatRequest

AGENT = "research"
BODY: dict[str, Any] = {"model": AGENT, "messages": [{"role": "user", "content": "Hello"}]}
ANSWER = '{"choices": [ {"message": {"content": "Hi – there"}}]}'
CHUNK = 'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'


class Gateway(NamedTuple):
    """The port, the worker behind it, and what the supervisor says of both."""

    port: GatewayPort
    worker: ChatWorker
    bench: Bench

    @property
    def human(self) -> str:
        return self.port.token("ada", f"run:agents:{AGENT}")

    async def complete(self, token: str | None = None, **fields: Any) -> Any:
        return await self.port.ask("POST", PATH, token or self.human, json={**BODY, **fields})


def on_gateway(
    tmp_path: Path, answer: Answer, test: Callable[[Gateway], Awaitable[None]], **settings: Any
) -> None:
    async def run(bench: Bench) -> None:
        async with gateway(tmp_path, bench, answer, **settings) as made, asyncio.timeout(60):
            await test(made)

    on_bench(tmp_path, run)


@asynccontextmanager
async def gateway(tmp_path: Path, bench: Bench, answer: Answer, **settings: Any) -> AsyncIterator[Gateway]:
    chats = WorkerChats()
    sweeping = asyncio.create_task(chats.run())
    async with chat_worker(answer) as worker:
        bench.upstreams[AGENT] = AgentUpstream(
            name=AGENT, uid=None, port=worker.port, socket=None, key="key-of-this-start"
        )
        async with gateway_port(
            tmp_path, lambda shared: completion_routes(bench.directory, chats, shared.audit), **settings
        ) as port:
            yield Gateway(port, worker, bench)
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)


async def say(_: ChatRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(whole(ANSWER))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALLAS_STATE_DIR", str(tmp_path / "state"))


def test_a_completion_goes_to_the_worker_as_it_came_and_so_does_its_answer(tmp_path: Path) -> None:
    async def answer(_: ChatRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(ANSWER, Pallas_Ignored="top_k", Set_Cookie="a=b", X_Request_Id="other"))

    async def test(gateway: Gateway) -> None:
        token = gateway.human
        sent = json.dumps({**BODY, "unknown": ["ü", 1e3]}, indent=1).encode()
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "X-Request-Id": "job-12345678",
            "Traceparent": f"00-{'1' * 32}-{'2' * 16}-01",
            "Pallas-Key": "guessed",
            "Cookie": "c=d",
        }
        answered = await gateway.port.ask("POST", PATH, token, content=sent, headers=headers)
        assert (answered.status_code, answered.text) == (200, ANSWER)
        assert answered.headers["pallas-ignored"] == "top_k"
        assert answered.headers.get_list("x-request-id") == ["job-12345678"]
        assert "set-cookie" not in answered.headers
        [request] = gateway.worker.requests
        assert (request.line, request.body) == (f"POST {PATH} HTTP/1.1", sent)
        assert request.headers["x-request-id"] == "job-12345678"
        assert not {"authorization", "cookie", "pallas-key"} & request.headers.keys()
        assert token not in repr(request.headers)
        assert gateway.port.audited() == [f"ada chat.completions agent/{AGENT} ok"]

    on_gateway(tmp_path, answer, test)


def test_a_stream_comes_as_it_is_spoken_and_holds_a_place_so_long(tmp_path: Path) -> None:
    more = asyncio.Event()

    async def answer(_: ChatRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head(Cache_Control="no-cache", X_Accel_Buffering="no") + piece(CHUNK))
        await more.wait()
        writer.write(piece(": waiting\n\n") + piece(DONE) + piece(""))

    async def test(gateway: Gateway) -> None:
        token = gateway.human
        response = await gateway.port.client.send(
            gateway.port.request("POST", PATH, token, json={**BODY, "stream": True}), stream=True
        )
        assert response.headers["content-type"] == "text/event-stream"
        assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == (
            "no-cache",
            "no",
        )
        pieces = response.aiter_raw()
        assert await anext(pieces) == CHUNK.encode()
        refused = await gateway.complete(token)
        assert refused.status_code == 429
        assert (refused.json()["error"]["type"], refused.headers["retry-after"]) == ("rate_limit_error", "1")
        more.set()
        assert b"".join([each async for each in pieces]) == f": waiting\n\n{DONE}".encode()
        assert (await gateway.complete(token, model="nobody")).status_code == 404
        assert gateway.port.audited()[0] == f"ada chat.completions agent/{AGENT} ok"

    on_gateway(tmp_path, answer, test, concurrent=1)


def test_only_people_get_the_workers_key_and_only_to_override(tmp_path: Path) -> None:
    async def test(gateway: Gateway) -> None:
        mine, agents = gateway.human, gateway.port.token("its", f"run:agents:{AGENT}", agent="library")
        for token, fields in ((mine, {}), (agents, {"system_override": "Lie"}), (mine, {"extra": None})):
            assert (await gateway.complete(token, **fields)).status_code == 200
            assert "pallas-key" not in gateway.worker.requests[-1].headers
        for name, value in {
            "system_override": "Rhyme",
            "extra": {"a": 1},
            "resume": True,
            "hold": ["*"],
        }.items():
            assert (await gateway.complete(mine, **{name: value})).status_code == 200
            assert gateway.worker.requests[-1].headers["pallas-key"] == "key-of-this-start"

    on_gateway(tmp_path, say, test)


def test_the_key_of_a_worker_that_was_replaced_is_asked_for_again(tmp_path: Path) -> None:
    async def answer(request: ChatRequest, writer: asyncio.StreamWriter) -> None:
        right = request.headers["pallas-key"] == "key-of-the-next-start"
        writer.write(whole(ANSWER) if right else whole("{}", "403 Forbidden"))

    async def test(gateway: Gateway) -> None:
        await gateway.bench.directory.upstream(AGENT)
        gateway.bench.upstreams[AGENT] = AgentUpstream(
            name=AGENT, uid=None, port=gateway.worker.port, socket=None, key="key-of-the-next-start"
        )
        assert (await gateway.complete(system_override="Rhyme")).text == ANSWER

    on_gateway(tmp_path, answer, test)


def test_an_agent_that_is_not_there_or_may_not_be_run_is_no_model(tmp_path: Path) -> None:
    async def test(gateway: Gateway) -> None:
        said = set()
        for token, name in (
            (gateway.human, "nobody"),
            (gateway.human, "library"),
            (gateway.port.token("eve", f"view:agents:{AGENT}"), AGENT),
        ):
            answered = await gateway.complete(token, model=name)
            error = answered.json()["error"]
            assert (answered.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
            said.add(error["message"].replace(name, "…"))
        assert len(said) == 1, "whether there is such an agent is not told"
        assert not gateway.worker.requests
        assert (await gateway.complete(model="a b, agent/c")).status_code == 404
        assert gateway.port.audited() == [
            "ada chat.completions agent/nobody denied",
            "ada chat.completions agent/library denied",
            f"eve chat.completions agent/{AGENT} denied",
            'ada chat.completions agent/"a b, agent/c" denied',
        ]

    on_gateway(tmp_path, say, test)


def test_refusals_are_errors_as_openai_has_them(tmp_path: Path) -> None:
    async def test(gateway: Gateway) -> None:
        port, token = gateway.port, gateway.human

        async def refused(method: str, path: str, who: str | None, **options: Any) -> tuple[Any, Any]:
            answered = await port.ask(method, path, who, **options)
            error = answered.json()["error"]
            assert list(error) == ["message", "type", "param", "code"]
            return (answered.status_code, error["type"], error["param"], error["code"]), answered.headers

        what, headers = await refused("POST", PATH, None, json=BODY)
        assert what == (401, "authentication_error", None, "unauthorized")
        assert headers["www-authenticate"].startswith("Bearer ")
        what, headers = await refused("GET", "/v1/models", port.token("eve", "view:agents"))
        assert what == (403, "permission_error", None, "insufficient_scope")
        assert 'scope="run:agents"' in headers["www-authenticate"]
        what, headers = await refused("GET", PATH, token)
        assert (what[0], what[3], headers["allow"]) == (405, "method_not_allowed", "POST")
        wrong: tuple[tuple[dict[str, Any], tuple[Any, ...]], ...] = (
            ({"json": {"messages": []}}, (400, "model", "invalid_value")),
            ({"json": {"model": 5}}, (400, "model", "invalid_value")),
            ({"json": [1]}, (400, None, "invalid_json")),
            ({"content": b"{", "headers": {"Content-Type": "application/json"}}, (400, None, "invalid_json")),
            ({"content": b"{}"}, (415, None, "unsupported_media_type")),
            ({"json": {**BODY, "user": "x" * 5000}}, (413, None, "too_large")),
        )
        for options, expected in wrong:
            what, _ = await refused("POST", PATH, token, **options)
            assert (what[0], what[2], what[3]) == expected
        utf16 = {
            "content": json.dumps(BODY).encode("utf-16"),
            "headers": {"Content-Type": "application/json"},
        }
        assert (await refused("POST", PATH, token, **utf16))[0][3] == "invalid_json"
        assert (await refused("GET", "/v1/files", token))[0][0] == 404
        assert not gateway.worker.requests

    on_gateway(tmp_path, say, test, max_request_bytes=4096)


def test_a_caller_who_goes_away_takes_the_turn_with_it(tmp_path: Path) -> None:
    async def answer(request: ChatRequest, writer: asyncio.StreamWriter) -> None:
        if request.json.get("stream"):
            writer.write(stream_head() + piece(CHUNK))
        await asyncio.Event().wait()

    async def test(gateway: Gateway) -> None:
        for stream in (True, False):
            asking = asyncio.create_task(gateway.complete(stream=stream))
            await gateway.worker.asked.wait()
            asking.cancel()
            await gateway.worker.gone.wait()
            gateway.worker.asked.clear()
            gateway.worker.gone.clear()
        await gateway.port.drained()
        assert gateway.port.audited() == [f"ada chat.completions agent/{AGENT} cancelled"] * 2

    on_gateway(tmp_path, answer, test)


def test_a_caller_who_does_not_read_is_waited_for_in_bounds_and_cut_off(tmp_path: Path) -> None:
    most = 64 * 1024 * 1024
    sent = 0

    async def answer(_: ChatRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(stream_head())
        while sent < most:
            writer.write(piece(b": " + b"x" * 65_534))
            sent += 65_536
            await writer.drain()

    async def test(gateway: Gateway) -> None:
        request = gateway.port.request("POST", PATH, gateway.human, json={**BODY, "stream": True})
        response = await gateway.port.client.send(request, stream=True)
        await gateway.worker.gone.wait()
        assert sent < most, "the worker was not held back"
        await response.aclose()
        await gateway.port.drained()
        assert gateway.port.audited() == [f"ada chat.completions agent/{AGENT} cancelled"]

    on_gateway(tmp_path, answer, test, stall_timeout=0.1)


def test_a_worker_that_breaks_off_is_told_of(tmp_path: Path) -> None:
    async def answer(request: ChatRequest, writer: asyncio.StreamWriter) -> None:
        if request.json.get("stream"):
            cut = CHUNK[:9] if request.json.get("user") else ""
            writer.write(stream_head() + piece(CHUNK + cut))
            await writer.drain()
        writer.close()

    async def test(gateway: Gateway) -> None:
        answered = await gateway.complete()
        assert (answered.status_code, answered.json()["error"]["code"]) == (502, "agent_failed")
        assert answered.headers["x-should-retry"] == "false"
        for fields in ({}, {"user": "x"}):
            answered = await gateway.complete(stream=True, **fields)
            *_, last = [each for each in answered.text.split("\n\n") if each]
            assert json.loads(last.removeprefix("data: "))["error"]["code"] == "agent_failed"
            assert DONE not in answered.text
        assert gateway.port.audited() == [f"ada chat.completions agent/{AGENT} error"] * 3

    on_gateway(tmp_path, answer, test)


def test_a_token_that_counts_no_more_ends_its_streams_with_an_error(tmp_path: Path) -> None:
    async def answer(_: ChatRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head() + piece(CHUNK))
        await asyncio.Event().wait()

    async def test(gateway: Gateway) -> None:
        request = gateway.port.request("POST", PATH, gateway.human, json={**BODY, "stream": True})
        response = await gateway.port.client.send(request, stream=True)
        pieces = response.aiter_text()
        assert await anext(pieces) == CHUNK
        [ada] = gateway.port.in_flight.principals()
        gateway.port.in_flight.end(ada)
        last = "".join([each async for each in pieces])
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "cut_off"
        await gateway.worker.gone.wait()

    on_gateway(tmp_path, answer, test)


def test_an_agent_that_nobody_serves_is_told_of_as_openai_would(tmp_path: Path) -> None:
    async def answer(_: ChatRequest, writer: asyncio.StreamWriter) -> None:
        error = {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": -32000, "message": "agent research is stopped"},
        }
        writer.write(whole(json.dumps(error), "503 Service Unavailable", Retry_After="30"))

    async def test(gateway: Gateway) -> None:
        answered = await gateway.complete()
        error = answered.json()["error"]
        assert (answered.status_code, error["code"]) == (503, "agent_unavailable")
        assert (error["message"], answered.headers["retry-after"]) == ("agent research is stopped", "30")

    on_gateway(tmp_path, answer, test)


def test_an_agent_that_cannot_be_reached_is_told_of(tmp_path: Path) -> None:
    async def test(gateway: Gateway) -> None:
        gateway.bench.upstreams[AGENT] = AgentUpstream(
            name=AGENT, uid=None, port=None, socket=str(tmp_path / "nobody.sock"), key=None
        )
        answered = await gateway.complete()
        assert (answered.status_code, answered.json()["error"]["code"]) == (503, "agent_unreachable")

    on_gateway(tmp_path, say, test)


def test_a_stream_that_ends_with_an_error_has_failed(tmp_path: Path) -> None:
    async def answer(_: ChatRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(stream_head() + piece(CHUNK) + piece('data: {"error": {}}\n\n') + piece(""))

    async def test(gateway: Gateway) -> None:
        assert (await gateway.complete(stream=True)).status_code == 200
        assert gateway.port.audited() == [f"ada chat.completions agent/{AGENT} error"]
        line = json.loads(gateway.port.audit.read_text().splitlines()[-1])
        assert (json.loads(line["asked"])["model"], "error" in line["answered"]) == (AGENT, True)

    on_gateway(tmp_path, answer, test, content=True)


def test_models_are_the_agents_that_one_may_run(tmp_path: Path) -> None:
    async def test(gateway: Gateway) -> None:
        port = gateway.port
        found = (await port.ask("GET", "/v1/models", gateway.human)).json()
        assert found["object"] == "list"
        [model] = found["data"]
        assert model == {
            "id": AGENT,
            "object": "model",
            "created": 0,
            "owned_by": "pallas",
            "name": "Research",
            "description": "The agent research",
        }
        assert (await port.ask("GET", f"/v1/models/{AGENT}", gateway.human)).json() == model
        assert (await port.ask("GET", "/v1/models/library", gateway.human)).status_code == 404
        every = (await port.ask("GET", "/v1/models", port.token("bob", "run:agents"))).json()["data"]
        assert [each["id"] for each in every] == ["library", "research"]

    on_gateway(tmp_path, say, test)
