"""Callers that go away at every stage of a call, in both eras: everything ends that the call has begun."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from fakes import stdio_server
from fakes.downstream import Fault, Recorded, RunningDownstream, run_downstream
from fakes.llm_stub import Asked, Call, LlmStub, Turn, by_request, run_llm_stub
from fakes.loopback import has_bearer, has_text
from pallas_common.protocol.agent.llm import ModelCapabilities
from support.fleet.process_tree import await_end
from support.worker.census import Census, agent, check_nothing_is_left, series, settle, until
from support.worker.process import RunningWorker, run_worker
from support.worker.project import MODES, bearing, project, text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator
    from pathlib import Path

LEAVERS = 12
SLACK = 8
"""What a background probe, warming up and a closing connection may hold; a leak of 12 calls is more."""
AT_A_TIME = 4
NAME = re.compile(r"(attach|llm|tool|queue|filler|stays)-[a-z]+-\d+")


def spec(**changes: Any) -> dict[str, Any]:
    """What the supervisor says of the model."""
    capabilities = ModelCapabilities(context_window=100_000, max_output_tokens=500)
    return {"default_model": "openai.stub-model", "capabilities": capabilities} | changes


def config(stub: LlmStub) -> str:
    """A configuration whose model is the stub's."""
    return (
        "default_model: openai.stub-model\n"
        f"openai: {{api_key: sk-stub-0123456789, base_url: '{stub.openai_url}'}}\n"
        "llm_retries: 0\n"
    )


def held(request: Recorded) -> Fault | None:
    """Holds what callers are waiting for whose token or text says so."""
    stage = (request.bearer or "").partition("-")[0]
    method = request.rpc_method
    if stage == "attach" and method in ("server/discover", "initialize"):
        return Fault(hold=True)
    return Fault(hold=True) if stage == "tool" and method == "tools/call" else None


def thinking(asked: Asked) -> Turn:
    """Thinks for ever about some callers."""
    if asked.user.startswith(("llm", "filler")):
        return Turn(text="never", delay=3600)
    return by_request(asked)


@dataclass
class Setting:
    """A worker with a server of each era."""

    worker: RunningWorker
    stub: LlmStub
    servers: dict[str, RunningDownstream]
    before: Census

    @property
    def gone(self) -> list[Recorded]:
        """The requests of all kinds that the worker did not wait for to the end."""
        return [*self.stub.loopback.gone, *(r for server in self.servers.values() for r in server.gone)]


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    with ExitStack() as stack:
        servers = {
            "modern": stack.enter_context(run_downstream(era="modern", fault=held)),
            "legacy": stack.enter_context(run_downstream(era="legacy", fault=held)),
        }
        stub = stack.enter_context(run_llm_stub(answer=thinking))
        declared = {
            name: {"transport": "http", "url": server.url, "forward_inbound_auth": True}
            for name, server in servers.items()
        }
        directory = project(
            tmp_path_factory.mktemp("project"),
            agents=agent(list(servers)),
            servers=declared,
            config=config(stub),
        )
        worker = stack.enter_context(run_worker(directory, **spec(max_concurrency=AT_A_TIME)))
        yield Setting(worker, stub, servers, settle(worker))


def message(name: str) -> str:
    """Makes the model call a tool of each server."""
    return f"{name}\n" + "\n".join(
        f"CALL {server}__echo {json.dumps({'text': name})}" for server in ("modern", "legacy")
    )


async def leave(url: str, name: str, mode: str, arrived: Awaitable[object]) -> None:
    """Call, and go away as soon as `arrived` is done."""

    async def calling() -> str:
        async with bearing(url, name, mode) as client:
            return text(await client.call_tool("demo", {"message": message(name)}))

    call = asyncio.create_task(calling())
    await arrived
    assert not call.done(), call
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stage", ["attach", "llm", "tool"])
def test_everything_ends_with_its_caller(setting: Setting, stage: str, mode: str) -> None:
    worker, stub = setting.worker, setting.stub
    names = [f"{stage}-{mode}-{number:02}" for number in range(LEAVERS)]
    errors = 'pallas_send_message_total{agent="demo",outcome="error"}'
    before = series(until(worker, lambda _: True), errors)

    def arrived(name: str) -> None:
        if stage == "llm":
            stub.loopback.wait_for(lambda seen: any(name in r.body.decode() for r in seen))
            return
        # Servers are connected to in their order, tools of a turn are called side by side.
        waited = ("modern",) if stage == "attach" else ("modern", "legacy")
        for server in waited:
            setting.servers[server].wait_for(
                lambda seen: any(r.bearer == name and held(r) is not None for r in seen)
            )

    async def run() -> None:
        # A thread for each: who is first in the worker's queue must not wait for one that is behind.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(LEAVERS))
        await asyncio.gather(*(leave(worker.url, n, mode, asyncio.to_thread(arrived, n)) for n in names))

    asyncio.run(run())
    until(worker, lambda metrics: series(metrics, errors) == before + LEAVERS)
    for name in names:
        if stage == "llm":
            stub.loopback.wait_for_gone(partial(has_text, name))
        else:
            for server in ("modern",) if stage == "attach" else ("modern", "legacy"):
                setting.servers[server].wait_for_gone(partial(has_bearer, name))
    # The loop is over: nobody was asked for another turn.
    turns = Counter(found[0] for asked in stub.asked if (found := NAME.match(asked.user)))
    assert {name: turns[name] for name in names} == dict.fromkeys(names, 0 if stage == "attach" else 1)
    check_nothing_is_left(worker, setting.before, SLACK)
    assert open_sessions(setting, names) == set()
    assert not [m for m in worker.messages("WARNING") if "disposed" in m or "no answer" in m]


def open_sessions(setting: Setting, names: list[str]) -> set[str]:
    """The sessions of these callers that were not closed."""
    server = setting.servers["legacy"]
    return {
        request.headers["mcp-session-id"]
        for request in server.requests
        if request.bearer in names and request.headers.get("mcp-session-id") in server.sessions_left
    }


@pytest.mark.parametrize("mode", MODES)
def test_a_caller_that_waits_for_its_turn_leaves_the_queue(setting: Setting, mode: str) -> None:
    worker, stub = setting.worker, setting.stub
    running, waiting = 'pallas_calls_running{agent="demo"}', 'pallas_calls_waiting{agent="demo"}'
    fillers = [f"filler-{mode}-{number:02}" for number in range(AT_A_TIME)]
    queued = [f"queue-{mode}-{number:02}" for number in range(LEAVERS)]
    full = f"{running} {float(AT_A_TIME)}\n"

    def all_wait() -> None:
        until(worker, lambda metrics: series(metrics, waiting) == LEAVERS)

    def all_run() -> None:
        until(worker, lambda metrics: full in metrics)

    async def run() -> None:
        left = asyncio.Event()

        async def fill(name: str) -> None:
            async with bearing(worker.url, name, mode) as client:
                filling = asyncio.create_task(client.call_tool("demo", {"message": name}))
                await left.wait()
                filling.cancel()
                await asyncio.gather(filling, return_exceptions=True)

        filling = [asyncio.create_task(fill(name)) for name in fillers]
        await asyncio.to_thread(all_run)
        waiting_all = asyncio.create_task(asyncio.to_thread(all_wait))
        await asyncio.gather(*(leave(worker.url, name, mode, asyncio.shield(waiting_all)) for name in queued))
        await asyncio.to_thread(until, worker, lambda metrics: series(metrics, waiting) == 0)
        left.set()
        await asyncio.gather(*filling)

    asyncio.run(run())
    until(worker, lambda metrics: series(metrics, running) == 0)
    assert not any(NAME.match(asked.user) and asked.user.startswith("queue") for asked in stub.asked)
    assert not any(request.bearer in queued for s in setting.servers.values() for request in s.requests)

    # All places are free again.
    async def stay() -> None:
        async def one(name: str) -> None:
            async with bearing(worker.url, name, mode) as client:
                assert name in text(await client.call_tool("demo", {"message": message(name)}))

        await asyncio.gather(*(one(f"stays-{mode}-{number:02}") for number in range(2 * AT_A_TIME)))

    asyncio.run(stay())
    check_nothing_is_left(worker, setting.before, SLACK)


FAMILY = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="child", instruction="You are the child.")
async def child(): ...


@fast.agent(name="demo", instruction="You are the parent.", agents=["child"], default=True)
async def demo(): ...
"""


@pytest.mark.parametrize("mode", MODES)
def test_the_agents_that_an_agent_is_made_of_end_too(tmp_path: Path, mode: str) -> None:
    def answer(asked: Asked) -> Turn:
        system = next(m["content"] for m in asked.body["messages"] if m["role"] == "system")
        if "parent" not in system:
            return Turn(text="never", delay=3600)
        calls = tuple(Call(asked.tools[0], {"message": f"{asked.user} {number}"}) for number in range(3))
        return Turn(text="done") if asked.tool_results else Turn(calls=calls)

    with run_llm_stub(answer=answer) as stub:
        directory = project(tmp_path, agents=FAMILY, config=config(stub))
        with run_worker(directory, **spec()) as worker:
            arrived = asyncio.to_thread(
                stub.loopback.wait_for, lambda seen: sum(b"llm-" in r.body for r in seen) == 4
            )
            asyncio.run(leave(worker.url, f"llm-{mode}-0", mode, arrived))
            stub.loopback.wait_for_gone(lambda gone: len(gone) == 3)
            until(worker, lambda m: series(m, 'pallas_send_message_total{agent="demo",outcome="error"}') == 1)
            assert worker.stop() == 0
            # The parent was not asked what to make of it.
            assert len(stub.asked) == 4
            assert not any("did not finish" in line for line in worker.messages("WARNING"))


def test_the_processes_of_a_call_end_with_its_caller(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    servers = {"local": {"command": sys.executable, "args": ["-IS", stdio_server.__file__]}}
    with run_worker(project(tmp_path, servers=servers)) as worker:

        async def run() -> None:
            async def calling() -> str:
                async with bearing(worker.url, "tok", "auto") as client:
                    told = json.dumps({"path": str(begun)})
                    return text(
                        await client.call_tool("demo", {"message": f"***CALL_TOOL local__wait {told}"})
                    )

            call = asyncio.create_task(calling())

            def arrived() -> None:
                until(worker, lambda _: begun.exists() or call.done())

            await asyncio.to_thread(arrived)
            assert not call.done(), call
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

        asyncio.run(run())
        pid = int(begun.read_text())
        assert await_end(pid, 60)
        assert worker.stop() == 0
