"""An agent's compositor over real servers: what it lists, what may be called, and servers that fail."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from fakes.agent_server import serving
from fakes.downstream import run_downstream
from pallas_common.protocol.gateway import AgentUpstream, ProjectUpstream, ServerUpstream
from pallas_gateway.directory.events.topics import Topic
from pallas_gateway.directory.records import AgentRecord
from pallas_gateway.identity.grants import parse_grant
from pallas_gateway.identity.principal import Principal
from pallas_gateway.mcp.surface import ClientRequest, McpError, Relayed
from pallas_gateway.servers.compositor.agent import AgentCompositor
from pallas_gateway.servers.compositor.mounts import Mounts
from pallas_gateway.servers.compositor.named import AgentServer, ProjectServer
from support.gateway.turns.bench import NO_THREADS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pallas_gateway.directory.directory import Directory

PATIENCE = 30.0


@dataclass
class Known:
    """As much of the directory as a compositor asks for."""

    upstreams: dict[str, AgentUpstream]
    agents: dict[str, AgentRecord] = field(default_factory=dict)
    projects: dict[str, ProjectUpstream] = field(default_factory=dict)
    knows_ways: bool = True
    away: str | None = None

    def __post_init__(self) -> None:
        self.agents = {name: AgentRecord(name=name, description=f"I am {name}") for name in self.upstreams}

    looked: dict[str, Any] = field(default_factory=dict)

    async def servers_looked_at(self, name: str) -> dict[str, Any]:
        return self.looked

    def agent(self, name: str) -> AgentRecord | None:
        return self.agents.get(name)

    async def upstream(self, name: str) -> AgentUpstream | None:
        return self.upstreams.get(name)

    async def project_upstream(self, name: str) -> ProjectUpstream | None:
        return self.projects.get(name)


def server(name: str, url: str) -> ServerUpstream:
    return ServerUpstream(name=name, settings={"transport": "http", "url": url})


def agent(
    name: str, *servers: ServerUpstream, port: int = 1, tools: tuple[str, ...] | None = None
) -> AgentUpstream:
    return AgentUpstream(name=name, uid=None, port=port, socket=None, servers=servers, tools=tools)


def principal(*grants: str, name: str = "jarvis") -> Principal:
    found = tuple(parse_grant(grant) for grant in grants)
    return Principal(id=f"worker:{name}/1", name=name, role="agent", agent=name, grants=found)


def request(method: str, **params: Any) -> ClientRequest:
    async def notify(_: dict[str, Any]) -> None: ...

    return ClientRequest(
        principal=principal(),
        era="sessions",
        version="2025-11-25",
        id=5,
        method=method,
        params=params,
        body=b"",
        headers={},
        session=None,
        request_id="r",
        notify=notify,
    )


@asynccontextmanager
async def compositor(
    known: Known,
    *grants: str,
    published: list[Topic] | None = None,
    observed: Callable[[str, bool, float], object] = lambda *_: None,
) -> AsyncIterator[AgentCompositor]:
    told = [] if published is None else published
    mounts = Mounts(lambda *topics: told.extend(topics), PATIENCE, NO_THREADS, observed)
    try:
        async with asyncio.timeout(PATIENCE):
            yield AgentCompositor(mounts, cast("Directory", known), principal(*grants))
    finally:
        await mounts.upstreams.close()


async def called(surface: AgentCompositor, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await surface.call_tool(name, arguments, request("tools/call", name=name, arguments=arguments))
    assert isinstance(answer, Relayed)
    assert isinstance(answer.body, bytes)
    return cast("dict[str, Any]", json.loads(answer.body))


def test_lists_have_what_may_be_called_and_nothing_else() -> None:
    async def main() -> None:
        known = Known(
            {
                "jarvis": agent("jarvis", server("git", one.url), tools=("git__[ea]*", "agent-*")),
                "research": agent("research"),
                "secret": agent("secret"),
            }
        )
        async with compositor(known, "run:agents:research") as surface:
            names = [tool["name"] for tool in await surface.tools()]
            assert names == ["git__echo", "git__add", "agent-research__chat"]
            assert (await called(surface, "git__echo", text="hi"))["result"]["content"][0]["text"] == "hi"
            for hidden in ("git__fail", "agent-secret__chat", "agent-jarvis__chat", "echo", "no__echo"):
                with pytest.raises(McpError, match="there is no tool"):
                    await called(surface, hidden, text="hi")

    with run_downstream() as one:
        asyncio.run(main())


def test_no_list_is_empty_because_the_supervisor_has_not_answered_yet() -> None:
    async def main() -> None:
        known = Known({}, knows_ways=False, away="the supervisor is away")
        async with compositor(known) as surface:
            for asking in (
                surface.tools(),
                surface.prompts(),
                surface.resources(),
                called(surface, "git__echo"),
            ):
                with pytest.raises(McpError, match="the supervisor is away") as refused:
                    await asking
                assert refused.value.status == 503
                assert refused.value.data
                assert refused.value.data["retry_after_ms"]

    asyncio.run(main())


def test_a_dead_and_a_hanging_server_cost_the_others_nothing_and_say_what_is_wrong() -> None:
    async def main() -> None:
        known = Known(
            {
                "jarvis": agent(
                    "jarvis",
                    server("dead", "http://127.0.0.2:9/mcp"),
                    server("slow", hanging.url),
                    server("git", one.url),
                    ServerUpstream(name="odd", settings={"transport": "pigeon"}),
                )
            }
        )
        published: list[Topic] = []
        answered: list[tuple[str, bool]] = []

        def observed(server: str, ok: bool, _seconds: float) -> None:
            answered.append((server, ok))

        async with compositor(known, published=published, observed=observed) as surface:
            assert {tool["name"].partition("__")[0] for tool in await surface.tools()} == {"git"}
            assert (await called(surface, "git__echo", text="hi"))["result"]["content"][0]["text"] == "hi"
            with pytest.raises(McpError, match="the server dead cannot be used: nothing answers"):
                await called(surface, "dead__echo", text="hi")
            assert answered == [("git", True), ("dead", False)]
            uri = "resource://agents/jarvis/mcp/state"
            read = await surface.read(uri, request("resources/read", uri=uri))
            assert isinstance(read, dict)
            records = {each["name"]: each for each in json.loads(read["contents"][0]["text"])}
            states = {name: record["state"] for name, record in records.items()}
            assert states == {"dead": "failed", "slow": "initializing", "git": "running", "odd": "failed"}
            assert "`pigeon`" in records["odd"]["error"]
            assert dt.datetime.fromisoformat(records["git"]["since"]).tzinfo is not None
            assert Topic("tools", "agent/jarvis") in published
            assert Topic("mcp/state", "agent/jarvis") in {*surface.topics(uri)} & {*published}
            known.looked = {"slow": {"up": False, "since": "now", "error": "no answer in time"}}
            read = await surface.read(uri, request("resources/read", uri=uri))
            assert isinstance(read, dict)
            slow = next(each for each in json.loads(read["contents"][0]["text"]) if each["name"] == "slow")
            assert (slow["state"], slow["error"]) == ("failed", "no answer in time"), "as people are told"
            with pytest.raises(McpError):
                await surface.read("resource://agents/other/mcp/state", request("resources/read"))
            assert not surface.may_subscribe("resource://agents/other/mcp/state")

    with run_downstream() as one, run_downstream(hold=True) as hanging:
        asyncio.run(main())
        hanging.release()


def test_arguments_of_a_servers_prompts_and_templates_are_completed_by_it() -> None:
    async def main() -> None:
        known = Known({"jarvis": agent("jarvis", server("hall", one.url), server("mute", other.url))})
        async with compositor(known) as surface:

            async def completed(value: str, **ref: str) -> list[str]:
                argument = {"name": "server" if value == "" else "who", "value": value}
                asked = request("completion/complete", ref=ref, argument=argument)
                answer = await surface.complete(ref, argument, asked)
                if isinstance(answer, Relayed):
                    assert isinstance(answer.body, bytes)
                    answer = json.loads(answer.body)["result"]
                found: list[str] = answer["completion"]["values"]
                return found

            assert await completed("al", type="ref/prompt", name="hall__greet") == ["alan"]
            assert await completed("a", type="ref/resource", uri="people://{who}") == ["ada", "alan"]
            own = "resource://compositor_meta/state/{server}"
            assert await completed("", type="ref/resource", uri=own) == ["hall", "mute"]
            for name in ("greet", "mute__greet", "hall__none", ""):
                assert await completed("al", type="ref/prompt", name=name) == []

    with run_downstream(greeting=True) as one, run_downstream() as other:
        asyncio.run(main())


def test_a_server_of_an_agents_name_hides_it_and_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        servers = server("agent-research", one.url), server("agent-smith", one.url)
        known = Known({"jarvis": agent("jarvis", *servers), "research": agent("research")})
        async with compositor(known, "run:agents:research") as surface:
            names = {tool["name"] for tool in await surface.tools()}
            assert "agent-research__echo" in names
            assert "agent-research__chat" not in names
            with pytest.raises(McpError, match="there is no tool"):
                await called(surface, "agent-research__chat", message="hi")
            uri = "resource://agents/jarvis/mcp/state"
            read = await surface.read(uri, request("resources/read", uri=uri))
            assert isinstance(read, dict)
            records = json.loads(read["contents"][0]["text"])
            warnings = {each["name"]: each.get("warning") for each in records}
            assert warnings == {
                "agent-research": "its name hides the agent research here",
                "agent-smith": None,
            }

    with run_downstream() as one:
        asyncio.run(main())
    warned = [record.message for record in caplog.records if "hides the agent" in record.message]
    assert len(warned) == 1
    assert "agent-research hides the agent research" in warned[0]


def test_an_agent_is_called_without_being_asked_before() -> None:
    async def main(port: int) -> bytes:
        known = Known({"jarvis": agent("jarvis"), "research": agent("research", port=port)})
        mounts = Mounts(lambda *_: None, PATIENCE, NO_THREADS)
        one = AgentServer(mounts, cast("Directory", known), principal("run:agents:research"), "research")
        assert [tool["name"] for tool in await one.tools()] == ["chat"]
        answer = await one.call_tool("chat", {"message": "hi"}, request("tools/call", name="chat"))
        assert isinstance(answer, Relayed)
        assert isinstance(answer.body, bytes)
        other = AgentServer(mounts, cast("Directory", known), principal(), "research")
        assert await other.tools() == []
        with pytest.raises(McpError):
            await other.call_tool("chat", {"message": "hi"}, request("tools/call", name="chat"))
        await mounts.upstreams.close()
        return answer.body

    result = json.dumps({"jsonrpc": "2.0", "id": 5, "result": {"content": [], "resultType": "complete"}})
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(result)}\r\n\r\n"
    with serving(head + result) as worker:
        answered = asyncio.run(main(int(worker.url.split(":")[2].partition("/")[0])))
    assert json.loads(answered) == {"jsonrpc": "2.0", "id": 5, "result": {"content": []}}
    assert b"mcp-name: send_message" in worker.request
    assert b'"name":"send_message"' in worker.request


def test_who_may_only_see_a_project_gets_nothing_of_servers_that_others_use() -> None:
    async def main() -> None:
        project = ProjectUpstream(name="p", servers=(server("notes", notes.url),))
        known = cast("Directory", Known({}, projects={"p": project}))
        mounts = Mounts(lambda *_: None, PATIENCE, NO_THREADS)

        def seen_by(*grants: str) -> ProjectServer:
            found = tuple(map(parse_grant, grants))
            someone = Principal(id="tok", name="ada", role="human", grants=found)
            return ProjectServer(mounts, known, someone, "p")

        try:
            async with asyncio.timeout(PATIENCE):
                runs = seen_by("view:projects:p", "run:projects:p")
                assert [each["uri"] for each in await runs.resources()] == ["note://one"]
                read = await runs.read("note://one", request("resources/read", uri="note://one"))
                assert isinstance(read, Relayed)
                assert runs.may_subscribe("note://one")
                sees = seen_by("view:projects:p")
                assert not sees.may_subscribe("note://one")
                assert await sees.resources() == []
                with pytest.raises(McpError, match="there is no resource"):
                    await sees.read("note://one", request("resources/read", uri="note://one"))
                with pytest.raises(McpError, match="there is no tool"):
                    await sees.call_tool("notes__echo", {"text": "x"}, request("tools/call"))
        finally:
            await mounts.upstreams.close()

    with run_downstream(notes=True) as notes:
        asyncio.run(main())
