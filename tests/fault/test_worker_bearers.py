"""A hundred callers with a hundred bearers at once, while servers fail and callers leave: no token goes astray."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from fakes.downstream import Fault, Recorded, RunningDownstream, run_downstream
from fakes.llm_stub import Asked, LlmStub, Turn, by_request, run_llm_stub
from fakes.loopback import has_bearer, has_text
from pallas_common.protocol.agent.llm import ModelCapabilities
from support.worker.census import until
from support.worker.process import RunningWorker, run_worker
from support.worker.project import MODES, project, text
from support.worker.secrets import leaked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fakes.downstream import Era

CALLERS = 100
SEED = 20260728
KEY = "sk-configured-5d8c1f0e7a"
EXPLICIT = "tok-explicit-93b1c5ee02"
SERVERS = ("opted", "plain", "explicit")
STAGES = ("attach", "llm", "tool")
"""Where a caller goes away: while its instance is made, while the model thinks, while a tool runs."""
WAYS = ("401", "401 always", "503", "503 always", "reset", "reset always", "slow")
"""What goes wrong with a request: once, or as often as it is tried."""


@dataclass
class Caller:
    """One caller, and what it is in for."""

    number: int
    token: str
    name: str
    leaves: str | None
    attach: str | None
    """What goes wrong when the opted-in server is connected to."""
    tools: dict[str, str]
    """What goes wrong when a server's tool is called."""
    llm: bool
    """The model's provider fails once."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """It has come to where it leaves."""

    @property
    def message(self) -> str:
        """What makes the stub call a tool of each server."""
        arguments = ({"text": f"{self.name} {server}"} for server in SERVERS)
        return "\n".join(
            f"CALL {server}__echo {json.dumps(given)}"
            for server, given in zip(SERVERS, arguments, strict=True)
        )


def make_callers(seed: int) -> list[Caller]:
    """A hundred callers: every third leaves, half of the others meet failures."""
    dice = random.Random(seed)
    callers = []
    for number in range(CALLERS):
        leaves = STAGES[number // 3 % len(STAGES)] if number % 3 == 0 else None
        troubled = leaves is None and dice.random() < 0.5
        tools = {server: dice.choice(WAYS) for server in SERVERS if troubled and dice.random() < 0.6}
        callers.append(
            Caller(
                number,
                token=f"tok-{dice.getrandbits(96):024x}",
                name=f"caller-{dice.getrandbits(64):016x}",
                leaves=leaves,
                attach=dice.choice(WAYS) if troubled and dice.random() < 0.4 else None,
                tools=tools,
                llm=troubled and dice.random() < 0.3,
            )
        )
    return callers


class Weather:
    """What the servers and the model do to each caller; called in their threads."""

    def __init__(self, callers: list[Caller]) -> None:
        self._by_token = {caller.token: caller for caller in callers}
        self._by_name = {caller.name: caller for caller in callers}
        self._seen: Counter[tuple[str, str]] = Counter()
        self.loop: asyncio.AbstractEventLoop | None = None

    def named(self, told: str) -> Caller | None:
        """The caller that a text is about."""
        found = re.search(r"caller-[0-9a-f]{16}", told)
        return self._by_name.get(found[0]) if found else None

    def on(self, server: str) -> Callable[[Recorded], Fault | None]:
        """Decides on the requests to this server."""

        def decide(request: Recorded) -> Fault | None:
            calling = request.rpc_method == "tools/call"
            caller = self._by_token.get(request.bearer or "")
            if calling:
                caller = self.named(request.body.decode())
            if caller is None or (not calling and server != "opted") or request.method != "POST":
                return None
            if server == "opted" and caller.leaves == ("tool" if calling else "attach"):
                self._arrived(caller)
                return Fault(hold=True)
            way = caller.tools.get(server) if calling else caller.attach
            self._seen[caller.name, f"{server} {calling}"] += 1
            return _fault(way, self._seen[caller.name, f"{server} {calling}"], request)

        return decide

    def answer(self, asked: Asked) -> Turn:
        """The model's turns."""
        caller = self.named(asked.user)
        assert caller is not None, asked.user
        if caller.leaves == "llm":
            self._arrived(caller)
            return Turn(text="never", delay=3600)
        self._seen[caller.name, "llm"] += 1
        if caller.llm and self._seen[caller.name, "llm"] == 1:
            return Turn(status=503, text="overloaded, said the provider")
        return by_request(asked)

    def _arrived(self, caller: Caller) -> None:
        assert self.loop is not None
        self.loop.call_soon_threadsafe(caller.arrived.set)


def _fault(way: str | None, time: int, request: Recorded) -> Fault | None:
    if way is None or (time > 1 and not way.endswith("always")):
        return None
    # Servers that repeat what they were sent must not bring it into a log or to a model.
    body = f"refused: {request.headers.get('authorization')}"
    match way.split()[0]:
        case "401":
            challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            return Fault(status=401, headers=challenge, body=body)
        case "503":
            return Fault(status=503, body=body)
        case "reset":
            return Fault(reset=True)
        case _:
            return Fault(delay=0.3)


@dataclass
class Setting:
    """A worker of an agent with three servers, and a model's provider that really calls tools."""

    worker: RunningWorker
    stub: LlmStub
    servers: dict[str, RunningDownstream]
    weather: Weather
    callers: list[Caller]


@pytest.fixture
def setting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Setting]:
    era: Era = request.param
    callers = make_callers(SEED)
    weather = Weather(callers)
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(run_downstream(name=name, era=era, fault=weather.on(name)))
            for name in SERVERS
        }
        stub = stack.enter_context(run_llm_stub(answer=weather.answer))
        worker = stack.enter_context(run_worker(make_project(tmp_path, servers, stub), **spec()))
        yield Setting(worker, stub, servers, weather, callers)


def make_project(directory: Path, servers: dict[str, RunningDownstream], stub: LlmStub) -> Path:
    """An agent with a server that opted in, one that did not, and one with a header of its own."""
    http = {name: {"transport": "http", "url": server.url} for name, server in servers.items()}
    declared: dict[str, dict[str, Any]] = {
        "opted": http["opted"] | {"forward_inbound_auth": True},
        "plain": http["plain"],
        "explicit": http["explicit"]
        | {"forward_inbound_auth": True, "headers": {"authorization": f"Bearer {EXPLICIT}"}},
    }
    return project(directory, servers=declared, config=config(stub))


def config(stub: LlmStub) -> str:
    """The provider's client is the real one, and tries again."""
    return (
        "default_model: openai.stub-model\n"
        f"openai: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
        "llm_retries: 0\n"
    )


def spec() -> dict[str, Any]:
    """What the supervisor says of the model."""
    capabilities = ModelCapabilities(context_window=100_000, max_output_tokens=500)
    # With more at a time, a crowded machine needs longer to connect than fast-agent waits for a server (10 s).
    return {"default_model": "openai.stub-model", "capabilities": capabilities, "max_concurrency": 8}


@pytest.mark.parametrize(
    ("mode", "setting"), [(MODES[0], "modern"), (MODES[1], "legacy")], indirect=["setting"]
)
def test_a_hundred_bearers_in_bad_weather(
    setting: Setting, mode: str, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = asyncio.run(call_all(setting, mode))
    stayed = [caller for caller in setting.callers if caller.leaves is None]
    assert len(answers) == len(stayed) == 66

    check_answers(setting.callers, answers)
    check_requests(setting)
    metrics = wait_for_the_last(setting.worker)
    check_nothing_is_held(setting)

    secrets = [caller.token for caller in setting.callers] + [KEY, EXPLICIT]
    assert setting.worker.stop() == 0
    setting.worker.wait_until(lambda it: it.ended)
    check_sessions(setting)
    log = json.dumps(setting.worker.records) + capfd.readouterr().err
    assert leaked(log, secrets) == []
    assert leaked(metrics, secrets) == []
    assert leaked("\n".join(answers.values()), secrets) == []
    for asked in setting.stub.requests:
        told = asked.body.decode() + json.dumps({**asked.headers, "authorization": ""})
        assert leaked(told, secrets) == []


async def call_all(setting: Setting, mode: str) -> dict[str, str]:
    """The answers by the callers' names; those that leave get none."""
    setting.weather.loop = asyncio.get_running_loop()
    answers: dict[str, str] = {}

    async def one(caller: Caller) -> None:
        headers = {"Authorization": f"Bearer {caller.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=300, verify=False) as http,
            Client(streamable_http_client(setting.worker.url, http_client=http), mode=mode) as client,
        ):
            result = await client.call_tool("demo", {"message": caller.message})
            answers[caller.name] = text(result)

    async def leaving(caller: Caller) -> None:
        calling = asyncio.create_task(one(caller))
        arriving = asyncio.create_task(caller.arrived.wait())
        await asyncio.wait((calling, arriving), return_when=asyncio.FIRST_COMPLETED)
        assert caller.arrived.is_set(), (caller, answers.get(caller.name))
        calling.cancel()
        await asyncio.gather(calling, arriving, return_exceptions=True)

    async with asyncio.timeout(600):
        await asyncio.gather(*(leaving(c) if c.leaves else one(c) for c in setting.callers))
    return answers


def check_answers(callers: list[Caller], answers: dict[str, str]) -> None:
    """Each answer is its caller's, and whole where nothing went wrong."""
    for caller in callers:
        if caller.leaves is not None:
            continue
        answer = answers[caller.name]
        assert set(re.findall(r"caller-[0-9a-f]{16}", answer)) <= {caller.name}
        assert "Traceback" not in answer
        harmless = (None, "slow")
        for server in SERVERS:
            reachable = server != "opted" or caller.attach in harmless
            if reachable and caller.tools.get(server) in harmless:
                assert f"{caller.name} {server}" in answer, caller


def check_requests(setting: Setting) -> None:
    """Every request of every server carries what it may, and nothing else."""
    tokens = {caller.token for caller in setting.callers}
    opted, plain, explicit = (setting.servers[name].requests for name in SERVERS)
    sessions: dict[str, set[str | None]] = defaultdict(set)
    seen: set[str] = set()
    for request in opted:
        if request.bearer is None:
            # The instance that is tried at the start and the probes of the health have no caller.
            assert "authorization" not in request.headers
            assert request.rpc_method != "tools/call"
            continue
        assert request.bearer in tokens
        seen.add(request.bearer)
        if request.rpc_method == "tools/call":
            caller = setting.weather.named(request.body.decode())
            assert caller is not None
            assert request.bearer == caller.token
        if session := request.headers.get("mcp-session-id"):
            sessions[session].add(request.bearer)
    assert seen == tokens
    assert all(len(bearers) == 1 for bearers in sessions.values())
    for request in plain:
        assert "authorization" not in request.headers
        assert leaked(json.dumps(dict(request.headers)) + request.body.decode(), tokens) == []
    for request in explicit:
        assert request.headers["authorization"] == f"Bearer {EXPLICIT}"
        assert leaked(json.dumps(dict(request.headers)) + request.body.decode(), tokens) == []
    assert setting.stub.asked
    assert {asked.bearer for asked in setting.stub.asked} == {KEY}


def wait_for_the_last(worker: RunningWorker) -> str:
    """The metrics once every call has ended: those of callers that left end when all is disposed of."""
    series = re.compile(r"^pallas_send_message_total\{.*\} (\S+)$", re.MULTILINE)
    return until(worker, lambda page: sum(map(float, series.findall(page))) == CALLERS)


def check_nothing_is_held(setting: Setting) -> None:
    """The servers see that nobody waits any more."""
    for caller in setting.callers:
        if caller.leaves == "llm":
            setting.stub.loopback.wait_for_gone(partial(has_text, caller.name))
        elif caller.leaves is not None:
            setting.servers["opted"].wait_for_gone(partial(has_bearer, caller.token))


def check_sessions(setting: Setting) -> None:
    """Every session is closed but those that a reset cut off: their client is told that they are gone.

    A caller that leaves while a session is opened never learns its name; nobody could close it.
    """
    leaving = sum(caller.leaves is not None for caller in setting.callers)
    for name, server in setting.servers.items():
        named = {request.headers.get("mcp-session-id") for request in server.requests}
        for request in server.requests:
            if request.headers.get("mcp-session-id") in server.sessions_left:
                caller = setting.weather.named(request.body.decode())
                assert caller is None or (caller.tools.get(name) or "").startswith("reset")
        resets = [c for c in setting.callers if (c.tools.get(name) or "").startswith("reset")]
        assert len(server.sessions_left & named) <= len(resets)
        assert len(server.sessions_left - named) <= leaving
