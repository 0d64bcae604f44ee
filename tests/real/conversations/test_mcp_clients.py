"""Conversations by MCP: clients of others, in both eras, with an agent that knows what was said before."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import fastmcp
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from fakes.llm_stub import Call, Fault, Turn, by_request
from real.clients.mcp_clients import Door, fast_agent, fast_mcp, inspector, sdk
from support.clients import ERAS
from support.gateway.http.deployed import run_deployed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from fakes.llm_stub import Asked, Recorded
    from real.clients.mcp_clients import Caller
    from support.clients import Era
    from support.gateway.http.deployed import Deployed

NAME = "My name is Ada."
ASK = "What have I said?"
SLOW = "How much is 2 + 3?"

CLIENTS: list[tuple[Caller, Era]] = [
    *((client, era) for client in (sdk, fast_mcp, fast_agent) for era in ERAS),
    (inspector, "auto"),  # a program for each call; its eras are shown by the life of an agent
]


def answer(asked: Asked) -> Turn:
    if asked.tool_results:
        return Turn(text="It is 5.")
    if asked.user == SLOW:
        return Turn(text="Let me see.", calls=(Call("tools__add", {"a": 2, "b": 3}),))
    if asked.user == ASK:
        users = [each["content"] for each in asked.body["messages"] if each["role"] == "user"]
        return Turn(text=f"You have said: {users}")
    return by_request(asked)


def held(request: Recorded) -> Fault | None:
    """The second request of a turn with a tool waits, until it is let go."""
    messages = (request.json or {}).get("messages") or [{}]
    return Fault(hold=True) if messages[-1].get("role") == "tool" else None


@dataclass
class Scene:
    """A deployment, and its gateway for who may do everything."""

    deployed: Deployed
    door: Door

    @property
    def agent(self) -> Door:
        return self.door.at("/mcp/agents/deployer")

    def messages(self, thread: str) -> list[str]:
        """What is kept of a thread."""
        items = self.deployed.ask("GET", f"/threads/{thread}/messages")["items"]
        assert {each["status"] for each in items} == {"complete"}
        return [each["content"] for each in items]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with run_deployed(tmp_path_factory.mktemp("mcp"), answer=answer, fault=held) as deployed:
        port = urlsplit(deployed.ada.url).port
        assert port is not None
        assert deployed.ada.token is not None
        yield Scene(deployed, Door(port, deployed.ada.token))


@pytest.mark.parametrize(("client", "era"), CLIENTS)
def test_chat_goes_on_with_a_thread(scene: Scene, tmp_path: Path, client: Caller, era: Era) -> None:
    thread = scene.deployed.ask("POST", "/agents/deployer/threads", 201)["id"]
    steps = [("chat", {"message": NAME, "thread": thread}), ("chat", {"message": ASK, "thread": thread})]
    told, knows, alone = client(scene.agent, era, [*steps, ("chat", {"message": ASK})], tmp_path)
    assert told == f"echo: {NAME}"
    assert knows == f"You have said: {[NAME, ASK]}"
    assert alone == f"You have said: {[ASK]}", "without a thread it remembers nothing"
    assert scene.messages(thread) == [NAME, told, ASK, knows]


@pytest.mark.parametrize(("client", "era"), CLIENTS)
def test_ask_agent_goes_on_with_a_session(scene: Scene, tmp_path: Path, client: Caller, era: Era) -> None:
    session = f"{client.__name__} {era}"

    def ask(prompt: str, session: str) -> tuple[str, dict[str, Any]]:
        return "ask_agent", {"name": "deployer", "prompt": prompt, "session_id": session}

    steps = [ask(NAME, session), ask(ASK, session), ask(ASK, f"another {session}")]
    told, knows, other = client(scene.door, era, steps, tmp_path)
    assert NAME in told
    assert (NAME in knows, ASK in knows) == (True, True)
    assert (NAME in other, ASK in other) == (False, True)
    thread = scene.deployed.ask("POST", "/agents/deployer/threads", json={"session": session})["id"]
    assert len(scene.messages(thread)) == 4


@pytest.mark.parametrize("client", [sdk, fast_mcp], ids=lambda each: each.__name__)
@pytest.mark.parametrize("era", ERAS)
def test_a_thread_is_begun_by_the_tool_itself(scene: Scene, tmp_path: Path, client: Caller, era: Era) -> None:
    [told] = client(scene.agent, era, [("chat", {"message": NAME, "thread": "new"})], tmp_path)
    found = re.search(r"\(thread ([0-9a-f-]{36}): name it as `thread` to go on\)$", told)
    assert found, told
    [knows] = client(scene.agent, era, [("chat", {"message": ASK, "thread": found[1]})], tmp_path)
    assert knows == f"You have said: {[NAME, ASK]}"


class Said(Protocol):
    """Is told of progress."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


@asynccontextmanager
async def _sdk(door: Door, era: Era) -> AsyncIterator[Callable[[dict[str, Any], Said], Awaitable[Any]]]:
    headers = {"Authorization": f"Bearer {door.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(door.url, http_client=http), mode=era) as client,
    ):
        yield lambda arguments, said: client.call_tool("chat", arguments, progress_callback=said)


@asynccontextmanager
async def _fast_mcp(door: Door, era: Era) -> AsyncIterator[Callable[[dict[str, Any], Said], Awaitable[Any]]]:
    async with fastmcp.Client(door.url, auth=door.token, mode=era) as client:
        yield lambda arguments, said: client.call_tool_mcp("chat", arguments, progress_handler=said)


def test_the_text_is_told_as_it_comes(scene: Scene) -> None:
    """Four callers at a time: none has its answer before each has heard its beginning."""
    told: dict[tuple[str, Era], str] = {}

    async def hear(connecting: Any, era: Era) -> str:
        who = connecting.__name__, era
        told[who] = ""
        steps = []

        async def said(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)
            told[who] += message or ""
            if all("[tools__add: completed]" in each for each in told.values()):
                scene.deployed.llm.loopback.release()

        async with connecting(scene.agent, era) as chat:
            result = await chat({"message": SLOW, "thread": "new"}, said)
        assert steps == sorted(set(steps)), "it only grows"
        return str(result.content[0].text)

    async def main() -> list[str]:
        told.update({(each.__name__, era): "" for each in (_sdk, _fast_mcp) for era in ERAS})
        hearing = [hear(each, era) for each in (_sdk, _fast_mcp) for era in ERAS]
        return await asyncio.gather(*hearing)

    assert asyncio.run(main()) == ["Let me see.\n\nIt is 5."] * 4
    assert all(each.startswith("Let me see.") for each in told.values())
