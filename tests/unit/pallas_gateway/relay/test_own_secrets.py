"""A server that quotes its own credentials where something goes wrong, over HTTP and as a child."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from fakes.downstream import Fault, Recorded, run_downstream
from pallas_common.protocol.gateway import ServerUpstream
from pallas_common.secrets.values import KnownSecrets
from pallas_gateway.relay.http.errors import RelayError
from pallas_gateway.relay.messages.model import Answer, Call
from pallas_gateway.relay.own_secrets import OwnSecrets, own_secrets
from pallas_gateway.relay.upstreams import Upstreams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEY = "Wq8opaque\"Key'OfTheServer4d"
PATIENCE = 30.0


def call(tool: str, **arguments: Any) -> Call:
    params = {"name": tool, "arguments": arguments}
    return Call(method="tools/call", params=params, id=7, era="sessions", timeout=PATIENCE)


@asynccontextmanager
async def upstreams(known: KnownSecrets | None = None) -> AsyncIterator[Upstreams]:
    made = Upstreams(lambda *_: None, known)
    try:
        async with asyncio.timeout(PATIENCE):
            yield made
    finally:
        await made.close()


def test_what_is_secret_of_a_servers_settings() -> None:
    settings = {
        "url": "https://me:hunter2hunter2@example.test/mcp?api_key=abcdefgh",
        "headers": {"Authorization": "Bearer 12345678", "X-Whatever": "sixteen-or-longer", "X-Team": "short"},
        "env": {"API_TOKEN": "fedcba98", "PATH": "/usr/local/bin:/usr/bin"},
        "args": ["serve", "--password=letmeinplease"],
    }
    found = set(own_secrets(settings))
    assert {"hunter2hunter2", "abcdefgh", "Bearer 12345678", "12345678"} <= found
    assert {"sixteen-or-longer", "fedcba98", "letmeinplease"} <= found
    assert not {"short", "/usr/local/bin:/usr/bin", "serve"} & found


@pytest.mark.parametrize("status", [403, 200])
def test_an_error_does_not_quote_the_key_of_its_server(status: int) -> None:
    """A refusal by HTTP, of which the gateway makes an error; and an error of JSON-RPC, which goes on as it came."""

    def quoting(request: Recorded) -> Fault | None:
        if request.rpc_method != "tools/call":
            return None
        said = f"{request.headers['x-api-key']} is refused"
        answer = {
            "jsonrpc": "2.0",
            "id": request.json["id"],
            "error": {"code": -1, "message": said, "data": [said]},
        }
        return Fault(
            status=status,
            body=json.dumps(answer if status == 200 else {"error": said}),
            headers={"content-type": "application/json" if status == 200 else "text/plain"},
        )

    async def main(url: str) -> str:
        known = KnownSecrets()
        settings = {"transport": "http", "url": url, "headers": {"X-Api-Key": KEY}}
        async with upstreams(known) as made:
            upstream = made.server(ServerUpstream(name="tools", settings=settings))
            await upstream.settled()
            assert known.strike(KEY) != KEY, "the log knows it"
            try:
                answer = await upstream.relay(call("echo", text="hi"))
            except RelayError as error:
                return str(error)
            assert isinstance(answer.body, bytes)
            message = json.loads(answer.body)
            assert message["id"] == 7
            assert message["error"]["code"] == -1
            assert "is refused" in message["error"]["data"][0]
            return answer.body.decode()

    with run_downstream(fault=quoting) as server:
        said = asyncio.run(main(server.url))
        assert any(request.headers.get("x-api-key") == KEY for request in server.requests)
    assert "is refused" in said
    assert "opaque" not in said


def test_a_server_that_cannot_be_opened_does_not_quote_it() -> None:
    def quoting(request: Recorded) -> Fault | None:
        return Fault(status=401, body=f"no such key: {request.headers['x-api-key']}")

    async def main(url: str) -> dict[str, Any]:
        settings = {"transport": "http", "url": url, "headers": {"X-Api-Key": KEY}}
        async with upstreams() as made:
            upstream = made.server(ServerUpstream(name="tools", settings=settings))
            await upstream.settled()
            with pytest.raises(RelayError) as refused:
                await upstream.relay(call("echo", text="hi"))
            return {"said": str(refused.value), **upstream.describe()}

    with run_downstream(fault=quoting) as server:
        said = asyncio.run(main(server.url))
    assert said["state"] == "failed"
    assert "no such key" in said["error"]
    assert "opaque" not in json.dumps(said)


def test_only_what_says_that_something_went_wrong_is_changed() -> None:
    secrets = OwnSecrets({"headers": {"X-Api-Key": KEY}})

    def of(*, failed: bool) -> Answer:
        text = {"type": "text", "text": f"it is {KEY}"}
        message = {"jsonrpc": "2.0", "id": KEY, "result": {"content": [text], "isError": failed}}
        body = json.dumps(message).encode()
        return Answer(status=200, content_type="application/json", body=body, is_error=failed)

    well = of(failed=False)
    assert secrets.strike_answer(well) is well
    struck = secrets.strike_answer(of(failed=True)).body
    assert isinstance(struck, bytes)
    message = json.loads(struck)
    assert message["id"] == KEY, "which is the caller's"
    assert message["result"]["content"][0]["text"] == "it is [redacted]"


def test_a_stream_that_ends_badly_does_not_quote_it_and_is_closed() -> None:
    closed: list[bool] = []
    bad = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": f"{KEY} is refused"}}
    ).encode()
    progress = json.dumps(
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"message": KEY}}
    ).encode()

    async def stream() -> AsyncIterator[bytes]:
        try:
            yield b"event: message\ndata: " + progress + b"\n\n"
            yield b"event: message\ndata: " + bad + b"\n\n"
        finally:
            closed.append(True)

    async def main() -> list[bytes]:
        answer = Answer(status=200, content_type="text/event-stream", body=stream())
        body = OwnSecrets({"headers": {"X-Api-Key": KEY}}).strike_answer(answer).body
        assert not isinstance(body, bytes)
        return [piece async for piece in body]

    first, last = asyncio.run(main())
    assert progress in first, "what went well goes on as it came"
    assert b"opaque" not in last
    assert json.loads(last.partition(b"data: ")[2])["error"]["message"] == "[redacted] is refused"
    assert closed == [True]
