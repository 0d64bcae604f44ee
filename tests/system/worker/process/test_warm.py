"""Instances made ahead in a real worker: whose they are, what happens to them when a server dies, and at the end."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from fakes.downstream import Fault, run_downstream
from support.ports import free_ports
from support.worker.process import run_worker
from support.worker.project import DEMO, MODES, ask, bearing, call, project, text

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client import Client

    from fakes.downstream import Era, Recorded, RunningDownstream

PATIENCE = 120.0

NUMBERED = '''
import itertools

from fast_agent import FastAgent
from fast_agent.agents import McpAgent
from fast_agent.mcp.prompt import Prompt

fast = FastAgent("tests")
numbers = itertools.count()


class Numbered(McpAgent):
    """Says which instance it is, and how much of a conversation it has; then it keeps what it was told."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.number = next(numbers)
        self.kept = []

    async def generate(self, messages, request_params=None, tools=None):
        seen = len(self.kept) + len(self.message_history)
        self.kept.append(messages[0])
        self.message_history.append(messages[0])
        self.config.servers.append("x")
        return Prompt.assistant(f"{self.number} {seen} {len(self.config.servers)}")


@fast.custom(Numbered, name="demo", servers={servers!r})
async def demo(): ...
'''


MADE = '''
from fast_agent import FastAgent
from fast_agent.agents import McpAgent

fast = FastAgent("tests")


class Told(McpAgent):
    """Leaves a letter behind for each instance that is ready."""

    async def initialize(self):
        await super().initialize()
        with open("made", "a") as file:
            file.write("x")


@fast.custom(Told, name="demo", servers={servers!r})
async def demo(): ...
'''

REMEMBERED = """
from pallas_worker.downstreams import reachability
reachability.REMEMBER_FOR = 600.0
"""
"""Before an agent's module: what servers have told is believed for longer than a test takes."""


def echo(server: str, told: str) -> str:
    """What makes the passthrough model call `echo` of that server."""
    return f'***CALL_TOOL {server}__echo {{"text": "{told}"}}'


def wait_for(what: str, reached: Any) -> None:
    """Wait until `reached()` is true."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)  # what is waited for happens in another process


def made(directory: Path) -> int:
    """How many instances of `MADE` are ready so far."""
    file = directory / "made"
    return len(file.read_text()) if file.exists() else 0


def questions(server: RunningDownstream) -> Counter[str]:
    """What agents have asked this server, by method; health probes, which other clients make, are not counted."""
    return Counter(
        str(request.rpc_method)
        for request in server.requests
        if request.headers["user-agent"].startswith("python-httpx2/")
    )


def test_no_instance_serves_two_calls(tmp_path: Path) -> None:
    with run_downstream() as server:
        servers = {"tools": {"transport": "http", "url": server.url}}
        source = NUMBERED.replace("{servers!r}", "['tools']")
        with run_worker(project(tmp_path, agents=source, servers=servers)) as worker:
            answers: list[str] = []

            async def act(client: Client) -> None:
                for _ in range(15):
                    asked = [client.call_tool("demo", {"message": "which?"}) for _ in range(6)]
                    answers.extend(text(result) for result in await asyncio.gather(*asked))

            for mode in MODES:
                ask(worker.url, mode, act)
            numbers, seen, configured = zip(*(answer.split() for answer in answers), strict=True)
            assert len(set(numbers)) == len(numbers) == 180
            assert set(seen) == {"0"}
            assert set(configured) == {"2"}


@pytest.mark.parametrize("mode", MODES)
def test_what_is_made_ahead_carries_no_bearer_and_each_call_its_own(tmp_path: Path, mode: str) -> None:
    with run_downstream(name="opted") as opted, run_downstream(name="plain") as plain:
        servers: dict[str, dict[str, Any]] = {
            "opted": {"transport": "http", "url": opted.url, "forward_inbound_auth": True},
            "plain": {"transport": "http", "url": plain.url},
        }
        agents = MADE.replace("{servers!r}", str(list(servers)))
        with run_worker(project(tmp_path, agents=agents, servers=servers)) as worker:
            # The trial instance and the one made ahead; nobody has called yet.
            wait_for("an instance is made ahead", lambda: made(tmp_path) > 1)
            assert not any(request.bearer for request in opted.requests + plain.requests)

            async def one(number: int) -> None:
                async with bearing(worker.url, f"token-{number}", mode) as client:
                    for server in ("opted", "plain"):
                        result = await client.call_tool(
                            "demo", {"message": echo(server, f"{server}-{number}")}
                        )
                        assert not result.is_error

            async def run() -> None:
                await asyncio.gather(*(one(number) for number in range(12)))

            asyncio.run(run())

            def told(request: Recorded) -> str | None:
                if request.rpc_method != "tools/call":
                    return None
                said: str = request.json["params"]["arguments"]["text"]
                return said

            calls = {said: r.bearer for r in opted.requests if (said := told(r)) is not None}
            assert calls == {f"opted-{number}": f"token-{number}" for number in range(12)}
            assert not any(request.bearer for request in plain.requests)
            # Each connection belongs to one token from its handshake on; only the trial at the start had none.
            assert [r.bearer for r in opted.requests if r.rpc_method == "tools/list"].count(None) == 1


@pytest.mark.parametrize("eras", [("both", "both"), ("legacy", "legacy"), ("modern", "legacy")])
def test_a_server_that_dies_while_instances_are_warm_and_comes_back(
    tmp_path: Path, eras: tuple[Era, Era]
) -> None:
    (port,) = free_ports(1)  # one that the kernel chose might be given to somebody else meanwhile
    with run_downstream(port=port, era=eras[0]) as first:
        servers = {"tools": {"transport": "http", "url": first.url}}
        agents = MADE.replace("{servers!r}", "['tools']")
        with run_worker(project(tmp_path, agents=agents, servers=servers)) as worker:
            assert made(tmp_path) == 1, "the first call gets the one that was tried at the start"
            assert "hello" in text(call(worker.url, "auto", "demo", message=echo("tools", "hello")))
            wait_for("instances are made ahead", lambda: made(tmp_path) > 4)
            first.stop()
            # Answers, with or without the tool: never an error of the worker itself.
            failed = [call(worker.url, "auto", "demo", message=echo("tools", "x")) for _ in range(8)]
            assert not any("inside the worker" in text(result) for result in failed)
            assert text(call(worker.url, "auto", "demo", message="alone")) == "alone"
            with run_downstream(port=port, era=eras[1]) as second:
                results = [
                    call(worker.url, "auto", "demo", message=echo("tools", f"back {i}")) for i in range(8)
                ]
                assert all(f"back {i}" in text(result) for i, result in enumerate(results))
                assert second.requests


def test_a_server_is_asked_once_what_it_is_and_again_when_it_has_failed(tmp_path: Path) -> None:
    with run_downstream(name="opted") as opted, run_downstream(name="plain") as plain:
        servers: dict[str, dict[str, Any]] = {
            "opted": {"transport": "http", "url": opted.url, "forward_inbound_auth": True},
            "plain": {"transport": "http", "url": plain.url},
        }
        agents = REMEMBERED + DEMO.format(servers=list(servers))
        with run_worker(project(tmp_path, agents=agents, servers=servers)) as worker:

            def works() -> bool:
                return "x" in text(call(worker.url, "auto", "demo", message=echo("plain", "x")))

            assert all(works() for _ in range(10))
            asked = questions(plain)
            assert asked == {"server/discover": 1, "tools/list": 1, "prompts/list": 1, "tools/call": 10}
            assert questions(opted)["server/discover"] > 10, "it knows who calls, and is asked for each"
            for fault in (Fault(reset=True), Fault(status=502)):
                plain.fault = fault
                assert not works()
                plain.fault = None
                plain.forget()
                wait_for("it is well again", works)
                assert questions(plain)["server/discover"] >= 1, "it is another one, perhaps"


def test_a_server_of_another_era_in_the_same_place_is_recognized(tmp_path: Path) -> None:
    with run_downstream(era="modern") as server:
        servers = {"tools": {"transport": "http", "url": server.url}}
        agents = REMEMBERED + MADE.replace("{servers!r}", "['tools']")
        with run_worker(project(tmp_path, agents=agents, servers=servers)) as worker:

            def works() -> bool:
                return "x" in text(call(worker.url, "auto", "demo", message=echo("tools", "x")))

            assert works()
            wait_for("instances are made ahead", lambda: made(tmp_path) > 4)
            server.speak("legacy")
            assert not works(), "nothing has told yet"
            wait_for("it is asked again", works)
            assert all(works() for _ in range(10)), "what was connected to the other one is not used"


def test_a_drain_disposes_of_what_is_warm(tmp_path: Path) -> None:
    with run_downstream(era="legacy") as server:
        servers = {"tools": {"transport": "http", "url": server.url}}
        with run_worker(project(tmp_path, servers=servers)) as worker:
            wait_for("instances are being made ahead", lambda: server.methods.count("tools/list") >= 1)
            assert worker.stop() == 0
            assert not [message for message in worker.messages("WARNING") if "dispose" in message]
        # Each session of the older protocol has been ended, too; one that was only being opened had no name yet.
        named = {
            request.headers["mcp-session-id"]
            for request in server.requests
            if "mcp-session-id" in request.headers
        }
        assert named
        wait_for("they have been ended", lambda: not named & server.sessions_left)


def test_a_cancelled_call_gives_its_instance_to_nobody(tmp_path: Path) -> None:
    source = NUMBERED.replace("{servers!r}", "[]").replace(
        "        seen = len",
        "        if messages[0].first_text() == 'hang':\n"
        "            self.kept.append('hung')\n            import asyncio; await asyncio.sleep(60)\n        seen = len",
    )
    with run_worker(project(tmp_path, agents=source)) as worker:

        async def act(client: Client) -> list[str]:
            for _ in range(10):
                asking = asyncio.create_task(client.call_tool("demo", {"message": "hang"}))
                await asyncio.sleep(0.05)  # long enough to have an instance most of the time
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            return [text(await client.call_tool("demo", {"message": "which?"})) for _ in range(10)]

        answers = ask(worker.url, "auto", act)
        assert len({answer.split()[0] for answer in answers}) == 10
        assert {answer.split()[1] for answer in answers} == {"0"}
