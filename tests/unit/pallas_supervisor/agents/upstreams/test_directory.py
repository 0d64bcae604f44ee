"""What the gateway is told: where agents are, what they may use with all secrets, by what their tokens are known."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import yaml

from pallas_common.protocol.gateway import ServerUpstream, Upstreams, WorkerToken
from pallas_common.protocol.reports import ReadyReport, ServerReport
from pallas_common.secrets.tokens import token_digest
from pallas_supervisor.http.control.guard import FOR_THE_GATEWAY, REFUSAL
from pallas_supervisor.lifecycle.states import WorkerId
from support.ports import free_ports
from support.supervisor.rig import Rig, rig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from starlette.types import ASGIApp

SECRET = """
apiVersion: pallas/v1
kind: secret
metadata: {name: keys}
spec: {data: {search: the-value-of-search}}
"""
SERVER = """
apiVersion: pallas/v1
kind: server
metadata: {name: search}
spec: {url: 'https://search.example.com/mcp', headers: {X-Key: '${secret:keys/search}'}, forwardInboundAuth: true}
"""
TOOL = """
apiVersion: pallas/v1
kind: server
metadata: {name: tool}
spec: {command: uvx, args: [tool], env: {A: b}, cwd: sub}
"""
DOOR = """
apiVersion: pallas/v1
kind: server
metadata: {name: door}
spec: {url: 'http://localhost:24199/mcp'}
"""
PROJECT = """
apiVersion: pallas/v1
kind: project
metadata: {name: platform}
spec:
  description: What we share
  servers: [search, door]
  prompts: [{name: style, text: Be brief.}]
"""
AGENT = """
apiVersion: pallas/v1
kind: agent
metadata: {name: deployer}
spec: {project: platform, servers: [tool], tools: [search__*], run: {depends_on: [one]}}
"""


def with_state(app: ASGIApp, state: dict[str, Any]) -> ASGIApp:
    """The application as it is on a connection of this state."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "state": state}, receive, send)

    return call


@asynccontextmanager
async def client(made: Rig, standing: str) -> AsyncIterator[httpx.AsyncClient]:
    app = with_state(made.control_api(), {"standing": standing, "peer": None})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://pallas") as asking:
        yield asking


def on_rig(
    directory: Path,
    do: Callable[[Rig, httpx.AsyncClient], Awaitable[None]],
    port: int | None = None,
    **fields: Any,
) -> None:
    port = port or free_ports(1)[0]
    (gateway,) = free_ports(1)
    fields = {"gateway": {"port": gateway, "public_url": "http://localhost:24199"}, **fields}

    async def run() -> None:
        async with (
            rig(directory, {"one": {"port": port}}, **fields) as made,
            client(made, "gateway") as asking,
        ):
            await do(made, asking)

    asyncio.run(run())


async def told(asking: httpx.AsyncClient, query: str = "") -> Upstreams:
    answer = await asking.get(f"/v1/upstreams{query}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return Upstreams.from_json(answer.json())


async def apply(asking: httpx.AsyncClient, *texts: str) -> None:
    files = [{"file": f"{at}.yaml", "text": text} for at, text in enumerate(texts)]
    answer = (await asking.post("/v1/resources", json={"files": files})).json()
    assert not answer["problems"], answer
    assert all(each["outcome"] == "created" for each in answer["results"]), answer


def test_an_agent_of_the_file_has_the_servers_that_its_worker_names(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    servers = {
        "search": {"url": "http://search.example.com/mcp", "headers": {"X-Key": "${KEY_OF_A_TEST:none}"}},
        "own": {"url": "http://localhost:24199/mcp/agents/other"},
        "other": {"url": "http://localhost:8201/mcp"},
        "sibling": {"url": f"http://localhost:{port}/mcp", "headers": {"X-Own": "1"}},
        "elsewhere": {"url": "http://unused.example.com/mcp"},
        "broken": {"transport": "magic"},
    }
    (tmp_path / "fastagent.config.yaml").write_text(yaml.safe_dump({"mcp": {"servers": servers}}))

    async def do(made: Rig, asking: httpx.AsyncClient) -> None:
        (one,) = (await told(asking)).agents
        assert (one.name, one.servers, one.key, one.uid, one.tools) == ("one", (), None, None, None)
        assert (one.host, one.port, one.socket) == (
            "127.0.0.1",
            made.manager.drift.deployment.agents["one"].port,
            None,
        )
        made.manager.engine.start(["one"])
        made.appear("one")
        names = ("search", "own", "other", "sibling", "broken", "in-code")
        made.report(
            "one",
            ReadyReport(
                model=None,
                capabilities=None,
                servers=tuple(ServerReport(name=name, transport="http", target="x") for name in names),
            ),
        )
        (one,) = (await told(asking)).agents
        assert one.servers == (
            ServerUpstream(
                name="search",
                settings={
                    "transport": "http",
                    "url": "http://search.example.com/mcp",
                    "headers": {"X-Key": "none"},
                },
            ),
            ServerUpstream(
                name="other",
                settings={"transport": "http", "url": "http://localhost:8201/mcp", "headers": {}},
            ),
            ServerUpstream(
                name="sibling",
                settings={
                    "transport": "http",
                    "url": f"http://localhost:{port}/mcp",
                    "headers": {"X-Own": "1", "Pallas-Key": made.manager.keys.siblings},
                },
            ),
        )
        assert one.siblings_key == made.manager.keys.siblings
        await told(asking)

    on_rig(tmp_path, do, port=port)


def test_keys_and_tokens_are_those_of_workers_that_are_there(tmp_path: Path) -> None:
    async def do(made: Rig, asking: httpx.AsyncClient) -> None:
        keys = made.manager.keys
        made.manager.engine.start(["one"])
        made.appear("one")
        first = keys.make(WorkerId("one", 1), with_token=True)
        later = keys.make(WorkerId("one", 2), with_token=True)
        assert first.token is not None
        assert later.token is not None
        (one,) = (await told(asking)).agents
        assert one.key == first.key, "of the worker that serves"
        assert one.tokens == (
            WorkerToken(generation=1, digest=token_digest(first.token)),
            WorkerToken(generation=2, digest=token_digest(later.token)),
        )
        text = (await asking.get("/v1/upstreams")).text
        assert first.token not in text
        made.manager.observers.process_gone(WorkerId("one", 1))
        (one,) = (await told(asking)).agents
        assert [token.generation for token in one.tokens] == [2]
        made.manager.observers.process_gone(WorkerId("one", 2))

    on_rig(tmp_path, do)


def test_declared_agents_and_projects_have_their_servers_with_secrets(tmp_path: Path) -> None:
    async def do(made: Rig, asking: httpx.AsyncClient) -> None:
        await apply(asking, SECRET, SERVER, TOOL, DOOR, PROJECT, AGENT)
        found = await told(asking)
        deployer = next(agent for agent in found.agents if agent.name == "deployer")
        assert deployer.port is None
        assert deployer.socket == str(made.manager.sockets.path("deployer"))
        assert deployer.uid
        assert (deployer.tools, deployer.depends_on) == (("search__*",), ("one",))
        search = ServerUpstream(
            name="search",
            settings={
                "transport": "http",
                "url": "https://search.example.com/mcp",
                "headers": {"X-Key": "the-value-of-search"},
            },
        )
        assert deployer.servers[0] == search
        tool = deployer.servers[1].settings
        assert (tool["transport"], tool["command"], tool["args"]) == ("stdio", "uvx", ["tool"])
        assert tool["cwd"] == str(made.directory / "sub")
        assert tool["env"]["A"] == "b"
        assert "PATH" in tool["env"], "as a worker would start it"
        (platform,) = found.projects
        assert platform.servers == (search,), "the gateway does not call itself"
        assert (platform.name, platform.description, platform.agents) == (
            "platform",
            "What we share",
            ("deployer",),
        )
        assert [(prompt.name, prompt.text) for prompt in platform.prompts] == [("style", "Be brief.")]
        assert "forward" not in json.dumps(found.to_json())

    on_rig(tmp_path, do)


def test_one_may_ask_for_some_and_what_is_not_there_is_left_out(tmp_path: Path) -> None:
    async def do(_made: Rig, asking: httpx.AsyncClient) -> None:
        await apply(asking, SECRET, SERVER, DOOR, PROJECT)
        named = await told(asking, "?agent=one&agent=nobody")
        assert [agent.name for agent in named.agents] == ["one"]
        assert named.projects == ()
        named = await told(asking, "?project=platform&project=none")
        assert named.agents == ()
        assert [project.name for project in named.projects] == ["platform"]
        assert (await asking.get("/v1/upstreams?all=1")).status_code == 422

    on_rig(tmp_path, do)


def test_nobody_else_is_told(tmp_path: Path) -> None:
    async def do(made: Rig, _asking: httpx.AsyncClient) -> None:
        for standing, why in (("outside", FOR_THE_GATEWAY), ("inside", REFUSAL)):
            async with client(made, standing) as other:
                answer = await other.get("/v1/upstreams")
                assert (answer.status_code, answer.json()) == (403, {"error": why})
        async with client(made, "inside") as other:
            assert (await other.get("/v1/status")).status_code == 403
            assert (await other.get("/nothing")).status_code == 403

    on_rig(tmp_path, do)


def test_the_status_of_some_agents(tmp_path: Path) -> None:
    async def do(_made: Rig, asking: httpx.AsyncClient) -> None:
        await apply(asking, SECRET, SERVER, TOOL, DOOR, PROJECT, AGENT)
        every = (await asking.get("/v1/status")).json()["agents"]
        assert [agent["name"] for agent in every] == ["one", "deployer"]
        assert every[1]["url"] == "http://localhost:24199/mcp/agents/deployer", "by the gateway"
        some = (await asking.get("/v1/status?agent=deployer")).json()["agents"]
        assert [agent["name"] for agent in some] == ["deployer"]
        assert (await asking.get("/v1/status?agent=one&agent=nobody")).status_code == 404
        assert (await asking.get("/v1/status?agents=one")).status_code == 422

    on_rig(tmp_path, do)
