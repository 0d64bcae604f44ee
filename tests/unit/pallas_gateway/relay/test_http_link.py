"""Real servers of the SDK in each era, and hostile ones byte by byte, behind one link."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from fakes.agent_server import JSON, answer, serving
from fakes.downstream import Fault, run_downstream
from pallas_gateway.relay.http.endpoint import parse_endpoint
from pallas_gateway.relay.http.errors import LateError, LostError, NoConnectionError, WrongAnswerError
from pallas_gateway.relay.http_link import HttpLink
from pallas_gateway.relay.messages.model import Call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fakes.downstream import Era as ServerEra
    from pallas_gateway.relay.messages.model import Answer, Era

PATIENCE = 30.0
META = "io.modelcontextprotocol/"


def run[T](url: str, ask: Callable[[HttpLink], Awaitable[T]], *, stateless: bool = False) -> T:
    async def asked() -> T:
        link = HttpLink(parse_endpoint(url, {}), stateless=stateless)
        try:
            async with asyncio.timeout(PATIENCE):
                return await ask(link)
        finally:
            await link.close()

    return asyncio.run(asked())


def call(era: Era, tool: str, id_: int | str = 7, timeout: float | None = PATIENCE, **arguments: Any) -> Call:
    meta: dict[str, Any] = {"progressToken": "mine"}
    if era == "stateless":
        meta |= {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return Call(method="tools/call", params=params, id=id_, era=era, timeout=timeout)


async def bytes_of(answered: Answer) -> bytes:
    if isinstance(answered.body, bytes):
        return answered.body
    return b"".join([piece async for piece in answered.body])


@pytest.mark.parametrize("era", ["stateless", "sessions"])
@pytest.mark.parametrize("spoken", ["modern", "legacy"])
def test_a_client_of_each_era_calls_a_server_of_each(spoken: ServerEra, era: Era) -> None:
    async def ask(link: HttpLink) -> list[dict[str, Any]]:
        opened = await link.open()
        assert opened.era == ("stateless" if spoken == "modern" else "sessions")
        echoed = await link.relay(call(era, "echo", text="héllo"))
        assert echoed.content_type == "application/json"
        reported = (
            await bytes_of(await link.relay(call(era, "report", "a", messages=["one", "two"])))
        ).decode()
        messages = [json.loads(line[6:]) for line in reported.splitlines() if line.startswith("data: ")]
        return [json.loads(await bytes_of(echoed)), *messages]

    with run_downstream(era=spoken) as server:
        echoed, first, second, last = run(server.url, ask)
        assert server.sessions_left == set()
    assert echoed["id"] == 7
    assert echoed["result"]["content"][0]["text"] == "héllo"
    assert ("resultType" in echoed["result"]) == (era == "stateless")
    assert [one["params"]["message"] for one in (first, second)] == ["one", "two"]
    assert first["params"]["progressToken"] == "mine"
    assert last["id"] == "a"
    assert last["result"]["content"][0]["text"] == "reported"


def test_a_stale_session_heals_itself_and_the_call_is_made_once() -> None:
    async def ask(link: HttpLink) -> tuple[bytes, bytes]:
        await link.open()
        first = await bytes_of(await link.relay(call("sessions", "echo", text="a")))
        link._session = "forgotten"
        return first, await bytes_of(await link.relay(call("sessions", "echo", text="b")))

    with run_downstream(era="legacy") as server:
        _, second = run(server.url, ask)
        assert server.sessions_opened == 2
        assert server.methods.count("tools/call") == 3  # the second was refused with 404 first
    assert json.loads(second)["result"]["content"][0]["text"] == "b"


def test_a_call_that_is_given_up_is_cancelled_there() -> None:
    async def ask(link: HttpLink) -> None:
        await link.open()
        asking = asyncio.ensure_future(link.relay(call("sessions", "echo", text="a")))
        await asyncio.to_thread(server.wait_for, lambda seen: seen[-1].rpc_method == "tools/call")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await asyncio.to_thread(
            server.wait_for, lambda seen: seen[-1].rpc_method == "notifications/cancelled"
        )
        server.release()

    with run_downstream(
        era="legacy", fault=lambda seen: Fault(hold=True) if seen.rpc_method == "tools/call" else None
    ) as server:
        run(server.url, ask)


RESULT = {"content": [], "resultType": "complete"}


def response(id_: object = 7, **more: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "result": RESULT, **more})


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (answer("200 OK", response(8), JSON), WrongAnswerError),
        (answer("200 OK", response("7"), JSON), WrongAnswerError),
        (answer("200 OK", response(True), JSON), WrongAnswerError),
        (answer("200 OK", '{"jsonrpc":"2.0","id":7,"result":[]}', JSON), WrongAnswerError),
        (answer("200 OK", "[" * 100_000, JSON), WrongAnswerError),
        (answer("200 OK", response(x=float("nan")), JSON), WrongAnswerError),
        (answer("200 OK", "<html>", "Content-Type: text/html"), WrongAnswerError),
        (answer("500 No", "down", "Content-Type: text/plain"), WrongAnswerError),
        (answer("307 Go", "", "Location: http://elsewhere.example/mcp"), WrongAnswerError),
        (f"HTTP/1.1 200 OK\r\n{JSON}\r\nContent-Length: 1000\r\n\r\n{{", LostError),
        (f"HTTP/1.1 200 OK\r\n{JSON}\r\nContent-Length: {1 << 40}\r\n\r\n", LostError),
        ("HTTP/1.1 200 OK\r\nA: " + "x" * 100_000 + "\r\n\r\n", WrongAnswerError),
        ("\x00\x01\x02 no answer at all", WrongAnswerError),
        ("", LostError),
    ],
)
def test_what_is_no_answer_is_said_to_be_none(sent: str, error: type[Exception]) -> None:
    with serving(sent) as server, pytest.raises(error):
        run(server.url, lambda link: link.relay(call("stateless", "echo")), stateless=True)


@pytest.mark.parametrize(
    ("said", "told"),
    [("400 Bad", 400), ("404 No", 404), ("401 Who", 200), ("403 No", 200), ("429 Wait", 200)],
)
def test_a_status_that_would_speak_of_the_clients_token_does_not_go_on(said: str, told: int) -> None:
    with serving(answer(said, response(), JSON)) as server:
        answered = run(server.url, lambda link: link.relay(call("stateless", "echo")), stateless=True)
    assert answered.status == told
    assert json.loads(asyncio.run(bytes_of(answered)))["result"] == RESULT


def test_an_answer_that_is_larger_than_it_says_is_the_answer_and_nothing_more() -> None:
    whole = answer("200 OK", response(), JSON)
    with serving(whole.replace("Connection: close\r\n", "") + whole) as server:
        answered = run(server.url, lambda link: link.relay(call("stateless", "echo")), stateless=True)
    assert answered.body == response().encode()


def test_a_server_that_never_answers_is_left_in_time() -> None:
    with serving(stay=True) as server:
        with pytest.raises(LateError):
            run(server.url, lambda link: link.relay(call("stateless", "echo", timeout=0.05)), stateless=True)
        assert server.gone.wait(PATIENCE)


def test_nobody_at_the_port_is_told_as_such() -> None:
    with serving("") as server:
        url = server.url.replace("127.0.0.1", "127.0.0.2")
        with pytest.raises(NoConnectionError, match=r"nothing answers at http://127\.0\.0\.2"):
            run(url, lambda link: link.relay(call("stateless", "echo")), stateless=True)
        with pytest.raises(LostError):
            run(server.url, lambda link: link.relay(call("stateless", "echo")), stateless=True)
