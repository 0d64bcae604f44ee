"""Where a caller's token may go: redirects, the older transport, shorthands, and LLM providers that take it."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

import pytest

from fakes.downstream import Fault, Recorded, RunningDownstream, run_downstream
from fakes.llm_stub import Asked, Call, LlmStub, Turn, run_llm_stub
from support.worker.process import run_worker
from support.worker.project import MODES, bearing, call, project, text
from support.worker.secrets import leaked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mcp_types import CallToolResult

TOKEN = "tok-c0ffee5eed1e55c0de"
KEY = "hf-configured-0a1b2c3d4e"
CHATTY = """
import logging

from fast_agent import FastAgent

fast = FastAgent("tests")
logging.getLogger().setLevel("DEBUG")


@fast.agent(name="demo", instruction="You repeat what is said.", servers={servers!r})
async def demo(): ...
"""
"""An agent that lets every library write all that it can."""


def ask_as(url: str, token: str, mode: str, message: str) -> CallToolResult:
    """The result of one call that carries the token."""

    async def run() -> CallToolResult:
        async with bearing(url, token, mode) as client:
            return await client.call_tool("demo", {"message": message})

    return asyncio.run(run())


def echo(server: str, told: str) -> str:
    """What makes the passthrough model call `echo` of that server."""
    return f'***CALL_TOOL {server}__echo {{"text": "{told}"}}'


def opted(url: str, **fields: Any) -> dict[str, Any]:
    """A server that wants the caller's token."""
    return {"transport": "http", "url": url, "forward_inbound_auth": True} | fields


def calls_of(server: RunningDownstream, told: str) -> list[Recorded]:
    """The `echo` calls with this text that the server got."""
    return [r for r in server.requests if r.rpc_method == "tools/call" and told in r.body.decode()]


def redirecting(status: int, to: Callable[[], str], when: str) -> Callable[[Recorded], Fault | None]:
    """Sends a method, or all of them, elsewhere."""

    def decide(request: Recorded) -> Fault | None:
        method = request.rpc_method or request.method
        if when not in ("any", method):
            return None
        return Fault(status=status, headers={"Location": to()})

    return decide


REDIRECTS: list[tuple[int, str, Literal["both", "modern", "legacy"]]] = [
    (307, "any", "both"),
    (308, "any", "both"),
    (302, "any", "both"),
    (307, "tools/call", "modern"),
    (308, "tools/call", "legacy"),
    (307, "tools/list", "modern"),
    (307, "notifications/initialized", "legacy"),
    (307, "GET", "legacy"),
    (308, "DELETE", "legacy"),
]


def test_a_redirect_to_another_origin_never_takes_the_token_along(tmp_path: Path) -> None:
    with ExitStack() as stack:
        elsewhere = stack.enter_context(run_downstream(name="elsewhere"))
        servers = {}
        running = []
        for number, (status, when, era) in enumerate(REDIRECTS):
            fault = redirecting(status, lambda: elsewhere.url, when)
            server = stack.enter_context(run_downstream(name=f"r{number}", era=era, fault=fault))
            running.append((server, when))
            own = {"headers": {"authorization": f"Bearer {KEY}"}} if number % 2 else {}
            servers[f"r{number}"] = opted(server.url, **own)
        with run_worker(project(tmp_path, servers=servers)) as worker:
            for number, mode in enumerate(MODES * 5):
                if number < len(REDIRECTS):
                    ask_as(worker.url, TOKEN, mode, echo(f"r{number}", "moved"))
            # The agent still answers, and its health does not follow redirects either.
            assert text(ask_as(worker.url, TOKEN, "auto", "x")) == "x"
            call(worker.url, "auto", "get_health")
            assert worker.stop() == 0
        for server, when in running:
            redirected = [r for r in server.requests if when in ("any", r.rpc_method or r.method)]
            assert any(request.bearer for request in redirected), when
        assert [request for request in elsewhere.requests if "authorization" in request.headers] == []
        assert leaked(repr(elsewhere.requests), [TOKEN, KEY]) == []


def test_another_name_of_the_same_host_is_another_origin(tmp_path: Path) -> None:
    with run_downstream() as server:
        named = server.url.replace("127.0.0.1", "localhost")
        server.fault = lambda request: (
            Fault(status=307, headers={"Location": named})
            if request.headers["host"].startswith("127.0.0.1") and request.bearer
            else None
        )
        with run_worker(project(tmp_path, servers={"one": opted(server.url)})) as worker:
            ask_as(worker.url, TOKEN, "auto", echo("one", "named"))
        assert any(request.bearer == TOKEN for request in server.requests)
        assert all(
            "authorization" not in r.headers for r in server.requests if "localhost" in r.headers["host"]
        )


@pytest.mark.parametrize("mode", MODES)
def test_a_redirect_within_the_origin_keeps_the_token(tmp_path: Path, mode: str) -> None:
    with run_downstream() as server:
        # The server's own redirect: /mcp/ is /mcp.
        with run_worker(project(tmp_path, servers={"one": opted(f"{server.url}/")})) as worker:
            assert "slashed" in text(ask_as(worker.url, TOKEN, mode, echo("one", "slashed")))
        assert {request.path for request in calls_of(server, "slashed")} >= {"/mcp/", "/mcp"}
        assert {request.bearer for request in calls_of(server, "slashed")} == {TOKEN}


def test_the_older_transport_carries_the_token_and_stays_within_its_origin(tmp_path: Path) -> None:
    with run_downstream(name="elsewhere") as elsewhere, run_downstream() as good, run_downstream() as moved:
        moved.fault = redirecting(307, lambda: elsewhere.sse_url, "GET")
        servers = {
            "good": opted(good.sse_url, transport="sse"),
            "moved": opted(moved.sse_url, transport="sse"),
            "plain": {"transport": "sse", "url": good.sse_url},
        }
        with run_worker(project(tmp_path, servers=servers)) as worker:
            assert "by sse" in text(ask_as(worker.url, TOKEN, "auto", echo("good", "by sse")))
            assert "no token" in text(ask_as(worker.url, TOKEN, "auto", echo("plain", "no token")))
        assert {request.bearer for request in calls_of(good, "by sse")} == {TOKEN}
        assert {request.bearer for request in calls_of(good, "no token")} == {None}
        assert elsewhere.requests == []


def test_the_target_shorthand_knows_the_flag(tmp_path: Path) -> None:
    with run_downstream() as with_flag, run_downstream() as without:
        servers: dict[str, dict[str, Any]] = {
            "flagged": {"target": with_flag.url, "forward_inbound_auth": True},
            "bare": {"target": without.url},
        }
        with run_worker(project(tmp_path, servers=servers)) as worker:
            assert "one" in text(ask_as(worker.url, TOKEN, "auto", echo("flagged", "one")))
            assert "two" in text(ask_as(worker.url, TOKEN, "auto", echo("bare", "two")))
        assert [request.bearer for request in calls_of(with_flag, "one")] == [TOKEN]
        assert len(calls_of(without, "two")) == 1
        assert all("authorization" not in request.headers for request in without.requests)


def test_only_true_is_a_yes(tmp_path: Path) -> None:
    answers: dict[str, Any] = {"no": False, "null": None, "absent": ...}
    with run_downstream() as server:
        servers = {
            name: {"transport": "http", "url": server.url}
            | ({} if flag is ... else {"forward_inbound_auth": flag})
            for name, flag in answers.items()
        }
        text_of = json.dumps({"mcp": {"servers": servers}, "default_model": "passthrough"})
        source = CHATTY.format(servers=list(servers))
        with run_worker(project(tmp_path, agents=source, config=text_of)) as worker:
            for name in servers:
                assert name in text(ask_as(worker.url, TOKEN, "auto", echo(name, name)))
        assert all("authorization" not in request.headers for request in server.requests)


def test_variables_in_headers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with run_downstream() as server:
        header = {"Authorization": "Bearer ${ARGOS_TOKEN}"}
        unset = {"authorization": "Bearer ${NO_SUCH_VARIABLE}", "X-Also": "${NOR_THIS}"}
        servers = {
            "set": opted(server.url, headers=header),
            "unset": opted(server.url, headers=unset),
        }
        source = CHATTY.format(servers=list(servers))
        directory = project(tmp_path, agents=source, servers=servers)
        with run_worker(directory, environment={"ARGOS_TOKEN": KEY}) as worker:
            told = "server unset: the header {} names {}, which is not set: set it in .env"
            expected = {told.format("authorization", "NO_SUCH_VARIABLE"), told.format("X-Also", "NOR_THIS")}
            worker.wait_until(lambda it: expected <= set(it.messages("WARNING")))
            for name in servers:
                ask_as(worker.url, TOKEN, "auto", echo(name, f"from {name}"))
            worker.stop()
            worker.wait_until(lambda it: it.ended)
            assert not any("server set" in warning for warning in worker.messages("WARNING"))
            # The configured header wins, also where its variable is not set.
            assert {request.bearer for request in calls_of(server, "from set")} == {KEY}
            assert TOKEN not in {request.bearer for request in server.requests}
            assert leaked(json.dumps(worker.records) + capfd.readouterr().err, [KEY, TOKEN]) == []


HF = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="child", instruction="You are the child.", servers=["tools"])
async def child(): ...


@fast.agent(name="demo", instruction="You are the parent.", agents=["child"], default=True)
async def demo(): ...
"""


def family(asked: Asked) -> Turn:
    """The parent asks the child, the child calls a tool, and both tell what they hear."""
    if asked.tool_results:
        return Turn(text=" | ".join(asked.tool_results))
    system = next(m["content"] for m in asked.body["messages"] if m["role"] == "system")
    if "parent" in system:
        return Turn(calls=(Call(asked.tools[0], {"message": asked.user}),))
    return Turn(calls=(Call("tools__echo", {"text": asked.user[-9:]}),))


def hf_config(stub: LlmStub, provider: str, key: str | None) -> str:
    """A provider of this name that is the stub."""
    own = f"api_key: {key}, " if key else ""
    return (
        f"default_model: {provider}.stub-model\n"
        f"{provider}: {{{own}base_url: '{stub.openai_url}'}}\n"
        "llm_retries: 0\n"
    )


@pytest.fixture
def stub() -> Iterator[LlmStub]:
    with run_llm_stub(answer=family) as running:
        yield running


@pytest.mark.parametrize("mode", MODES)
def test_a_provider_that_takes_the_callers_token_gets_each_callers_own(
    tmp_path: Path, stub: LlmStub, mode: str, capfd: pytest.CaptureFixture[str]
) -> None:
    names = [f"told-{number:04}" for number in range(10)]
    with run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        config = hf_config(stub, "hf", None)
        with run_worker(project(tmp_path, agents=HF, servers=servers, config=config)) as worker:

            async def one(name: str) -> None:
                async with bearing(worker.url, f"hf-{name}", mode) as client:
                    assert name in text(await client.call_tool("demo", {"message": name}))

            async def run() -> None:
                await asyncio.gather(*map(one, names))

            asyncio.run(run())
            assert len(stub.asked) == 4 * len(names)
            for asked in stub.asked:
                assert asked.bearer is not None
                assert asked.bearer.removeprefix("hf-") in json.dumps(asked.body)
            # Without a token, and without a key of its own, nobody else's is taken.
            refused = call(worker.url, mode, "demo", message="told-none")
            assert refused.is_error
            assert "key" in text(refused).lower()
            assert len(stub.asked) == 4 * len(names)
            # Those who bring one are answered as before.
            assert json.loads(text(call(worker.url, mode, "get_health")))["status"] == "ok"
            worker.stop()
            worker.wait_until(lambda it: it.ended)
            said = json.dumps(worker.records) + capfd.readouterr().err
            assert leaked(said, [f"hf-{name}" for name in names]) == []
        assert all("authorization" not in request.headers for request in tools.requests)


@pytest.mark.parametrize(("provider", "expected"), [("hf", TOKEN), ("openai", KEY), ("generic", KEY)])
def test_the_token_goes_to_providers_that_pass_it_on_and_to_no_other(
    tmp_path: Path, stub: LlmStub, provider: str, expected: str
) -> None:
    with run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        config = hf_config(stub, provider, KEY)
        with run_worker(project(tmp_path, agents=HF, servers=servers, config=config)) as worker:
            for _ in range(2):
                assert "told-mine" in text(ask_as(worker.url, TOKEN, "auto", "told-mine"))
                assert {asked.bearer for asked in stub.asked} == {expected}
                stub.asked.clear()
                assert "told-none" in text(call(worker.url, "auto", "demo", message="told-none"))
                assert {asked.bearer for asked in stub.asked} == {KEY}
                stub.asked.clear()
