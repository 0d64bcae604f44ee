"""The management server on a real control API, with stubs as workers: tools and resources, within one's rights."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from pallas_common.protocol.gateway import AgentUpstream
from pallas_common.secrets.tokens import new_token
from pallas_gateway.conversations.worker import WorkerChats
from pallas_gateway.directory import topics
from pallas_gateway.identity.grants import parse_grant
from pallas_gateway.identity.principal import Principal
from pallas_gateway.mcp.errors import AGENT_NOT_FOUND, INVALID_PARAMS, TENANT_NOT_FOUND
from pallas_gateway.mcp.surface import ClientRequest, InsufficientScopeError, McpError
from pallas_gateway.servers.chat.turns import ThreadTurns
from pallas_gateway.servers.management import asking
from pallas_gateway.servers.management.context import Context
from pallas_gateway.servers.management.resources import RESOURCES, TEMPLATES
from pallas_gateway.servers.management.surface import ManagementSurface
from pallas_gateway.servers.management.tools import TOOLS
from pallas_gateway.store.conversations.records import Row, ToolCall
from pallas_gateway.store.database import open_store
from pallas_supervisor.sockets.unserved.unavailable import Unavailable, render
from support.gateway.mirror import Bench, on_bench
from support.gateway.turns import rows
from support.gateway.turns.bench import NO_TURNS
from support.supervisor.control_socket import on_socket
from support.supervisor.declared import agent, document, file, open_llm

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from sqlalchemy import Connection
    from starlette.requests import Request

    from pallas_gateway.store.database import Store

type Json = dict[str, Any]

SPEC: Json = {"description": "It greets", "llm": "open", "systemPrompt": "Greet."}


def person(*grants: str, name: str = "ada") -> Principal:
    return Principal(id=f"id of {name}", name=name, role="human", grants=tuple(map(parse_grant, grants)))


EVERYTHING = person("*")


@dataclass
class Door:
    """The management server as different people see it."""

    bench: Bench
    context: Context
    store: Store
    told: list[Json] = field(default_factory=list)

    def surface(self, who: Principal = EVERYTHING) -> ManagementSurface:
        return ManagementSurface(self.context, who)

    def request(self, who: Principal, **params: Any) -> ClientRequest:
        async def notify(message: Json) -> None:
            self.told.append(message)

        return ClientRequest(
            principal=who,
            era="sessions",
            version="2025-11-25",
            id=1,
            method="",
            params=params,
            body=b"",
            headers={},
            session=None,
            request_id="request-1",
            notify=notify,
        )

    async def call(
        self, tool: str, who: Principal = EVERYTHING, meta: Json | None = None, **arguments: Any
    ) -> Json:
        """The structured result of a call."""
        request = self.request(who, _meta=meta or {})
        result = await self.surface(who).call_tool(tool, arguments, request)
        [content] = result["content"]
        assert json.loads(content["text"]) == result["structuredContent"]
        assert result["isError"] == (result["structuredContent"].get("status") == "error")
        found: Json = result["structuredContent"]
        return found

    async def read(self, uri: str, who: Principal = EVERYTHING) -> Any:
        [content] = (await self.surface(who).read(uri, self.request(who)))["contents"]
        assert (content["uri"], content["mimeType"]) == (uri, "application/json")
        return json.loads(content["text"])


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALLAS_STATE_DIR", str(tmp_path / "state"))


def on_door(tmp_path: Path, do: Callable[[Door], Awaitable[None]]) -> None:
    async def run(bench: Bench) -> None:
        await bench.rig.applying.apply([file("a.yaml", open_llm())], "root")
        store = open_store(f"sqlite:{tmp_path / 'gateway.db'}")
        threads = ThreadTurns(store, NO_TURNS)
        try:
            context = Context(directory=bench.directory, chats=WorkerChats(), threads=threads)
            await do(Door(bench, context, store))
        finally:
            await store.close()

    on_bench(tmp_path, run)


def names(documents: list[Json]) -> list[str]:
    return [each["name"] for each in documents]


def test_an_agent_is_made_changed_and_deleted(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        made = (await door.call("agents_create", name="greeter", spec=SPEC))["agent"]
        assert (made["name"], made["owner"], made["state"], made["model"]) == (
            "greeter",
            "ada",
            "idle",
            "openai.m",
        )
        assert made["spec"]["systemPrompt"] == "Greet."
        assert names((await door.call("agents_list"))["agents"]) == ["library", "research", "greeter"]
        twice = await door.call("agents_create", name="greeter", spec=SPEC)
        assert twice["error"]["type"] == "conflict"
        changed = await door.call(
            "agents_update",
            name=made["uid"],
            spec={**SPEC, "description": "It waves"},
            resource_version=made["resource_version"],
        )
        assert changed["agent"]["description"] == "It waves"
        late = await door.call(
            "agents_update", name="greeter", spec=SPEC, resource_version=made["resource_version"]
        )
        assert late["error"]["type"] == "conflict"
        assert (await door.call("agents_delete", name="greeter"))["deleted"] == "greeter"
        assert names((await door.call("agents_list"))["agents"]) == ["library", "research"]
        with pytest.raises(McpError) as gone:
            await door.call("agents_delete", name="greeter")
        assert gone.value.code == AGENT_NOT_FOUND

    on_door(tmp_path, do)


def test_what_is_wrong_is_said_with_its_field(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        for arguments, field_ in (
            ({"name": "x"}, None),
            ({"name": 1, "spec": {}}, "name"),
            ({"name": "x", "spec": {}, "more": 1}, None),
            ({"name": "x", "spec": {"descripton": "It"}}, "spec"),
            ({"name": "a b", "spec": SPEC}, "name"),
        ):
            found = await door.call("agents_create", **arguments)
            assert found["status"] == "error", arguments
            assert found["error"].get("field") == field_, found
        both = await door.call("ask_agent", name="a", agent_uri="a", prompt="?")
        assert both["error"]["field"] == "agent_uri"
        missing = await door.call("agents_create", name="x", spec={**SPEC, "llm": "absent"})
        assert missing["error"]["type"] == "invalid_spec"
        assert missing["error"]["message"].startswith("spec.llm: ")

    on_door(tmp_path, do)


def test_what_is_wrong_is_said_to_a_client_without_the_files_and_the_shell_of_the_machine(
    tmp_path: Path,
) -> None:
    async def do(door: Door) -> None:
        await door.call("agents_create", name="greeter", spec=SPEC)
        declared = "agent/research is declared in agents.yaml"
        here = "edit agents.yaml, line 8, and run `pallasctl reload`; or choose another name"
        schema: Json = {"agent_name": "x", "description": "Greet.", "output_schema": {"type": "wolf"}}
        wrong: Json = {"descripton": "It", "llm": 1}
        for tool, arguments, type_, said in (
            (
                "agents_create",
                {"name": "greeter", "spec": SPEC},
                "conflict",
                "name: agent/greeter is there already; edit it, or choose another name",
            ),
            (
                "agents_update",
                {
                    "name": "greeter",
                    "spec": {**SPEC, "description": "It waves"},
                    "resource_version": "0" * 16,
                },
                "conflict",
                "metadata.resourceVersion: has been changed since: the version is ",
            ),
            (
                "agents_create",
                {"name": "x", "spec": wrong},
                "invalid_spec",
                "spec.descripton: is not a known key; did you mean `description`?",
            ),
            ("create_agent", schema, "invalid_spec", 'output_schema.type: "wolf" is no type; use '),
            ("agents_update", {"name": "research", "spec": SPEC}, "conflict", f"name: {declared}:8; {here}"),
            (
                "agents_delete",
                {"name": "research"},
                "conflict",
                f"agents.yaml:8: agents.research: {declared}; {here}",
            ),
        ):
            error = (await door.call(tool, **arguments))["error"]
            assert error["type"] == type_, error
            assert error["message"].startswith(said), error
            assert error["message"] not in error.get("details", [])
            assert "(`" not in error["message"]
        error = (await door.call("agents_create", name="x", spec=wrong))["error"]
        assert [each.partition(":")[0] for each in error["details"]] == ["spec.llm"]
        assert (await door.call("create_agent", **schema))["error"]["field"] == "output_schema"

    on_door(tmp_path, do)


def test_lists_have_what_may_be_used_and_calls_ask_again(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        viewer = person("view:agents:library")
        assert names(await door.surface(viewer).tools()) == ["agents_list"]
        assert names((await door.call("agents_list", viewer))["agents"]) == ["library"]
        assert names(await door.surface(person("run:agents:x")).tools()) == ["ask_agent"]
        assert names(await door.surface().tools()) == [tool.name for tool in TOOLS]
        assert await door.surface(person()).tools() == []
        with pytest.raises(InsufficientScopeError, match="delete:agents"):
            await door.call("agents_delete", viewer, name="library")
        deleter = person("delete:agents:x", "view:agents:library")
        with pytest.raises(InsufficientScopeError, match="delete:agents:library"):
            await door.call("agents_delete", deleter, name="library")
        with pytest.raises(McpError) as hidden:
            await door.call("agents_delete", deleter, name="research")
        with pytest.raises(McpError) as absent:
            await door.call("agents_delete", deleter, name="nowhere")
        assert str(hidden.value).replace("research", "nowhere") == str(absent.value)
        with pytest.raises(McpError) as unknown:
            await door.call("agents_fly")
        assert unknown.value.code == INVALID_PARAMS
        for make in (door.surface(person()).resources, door.surface(person("run:agents")).templates):
            with pytest.raises(InsufficientScopeError, match="view:agents"):
                await make()

    on_door(tmp_path, do)


def test_an_agent_token_has_nothing_here(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        who = Principal(id="w", name="w", role="agent", agent="library", grants=(parse_grant("*"),))
        surface = door.surface(who)
        assert await surface.tools() == []
        for tool in TOOLS:
            with pytest.raises(McpError):
                await surface.call_tool(tool.name, {}, door.request(who))
        with pytest.raises(InsufficientScopeError):
            await surface.resources()
        assert not any(surface.may_subscribe(each.uri) for each in RESOURCES)

    on_door(tmp_path, do)


@pytest.mark.parametrize(
    ("spec", "grants", "scope"),
    [
        (SPEC, ("create:agents:x",), "run:resources:llm/open"),
        (SPEC, ("create:agents:x", "run:resources:llm/open"), None),
        (SPEC, ("create:resources:agent/x", "run:resources:llm/*"), None),
        ({**SPEC, "run": {"env": {"A": "b"}}}, ("create:agents", "run:resources"), "edit:code"),
        ({**SPEC, "run": {"python": "/bin/sh"}}, ("create:agents", "run:resources"), "edit:code"),
        (
            {**SPEC, "run": {"depends_on": ["library"]}},
            ("create:agents", "run:resources"),
            "run:agents:library",
        ),
        ({**SPEC, "project": "p"}, ("create:agents", "run:resources:llm/open"), "run:projects:p"),
    ],
)
def test_writing_takes_the_rights_on_what_is_named(
    tmp_path: Path, spec: Json, grants: tuple[str, ...], scope: str | None
) -> None:
    async def do(door: Door) -> None:
        who = person(*grants)
        if scope is None:
            assert (await door.call("agents_create", who, name="x", spec=spec))["status"] == "success"
            return
        with pytest.raises(InsufficientScopeError) as refused:
            await door.call("agents_create", who, name="x", spec=spec)
        assert str(refused.value.permission) == scope
        assert "x" not in door.bench.directory.agents

    on_door(tmp_path, do)


def test_agents_are_started_stopped_and_restarted(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        rig = door.bench.rig

        def is_starting(name: str) -> bool:
            return door.bench.directory.agents[name].state == "starting"

        async def came_up(*agents: str) -> None:
            for name in agents:
                await door.bench.until(partial(is_starting, name))
                rig.come_up(name)

        [started, _] = await asyncio.gather(
            door.call("agents_start", name="research"), came_up("library", "research")
        )
        assert started["agents"][-1]["state"] == "running"
        needed = await door.call("agents_stop", name="library")
        assert needed["error"]["message"].startswith("library is needed by research")
        narrow = person("edit:agents:library", "view:agents:library")
        hidden = await door.call("agents_stop", narrow, name="library")
        assert "research" not in json.dumps(hidden)
        hidden = await door.call("agents_stop", narrow, name="library", cascade=True)
        assert "research" not in json.dumps(hidden)
        assert door.bench.directory.agents["research"].state == "ready"

    on_door(tmp_path, do)


def test_the_audit_says_which_agent_a_call_was_about(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        made = (await door.call("agents_create", name="greeter", spec=SPEC))["agent"]
        audited = door.surface().audited
        assert audited("agents_list", {"name": "greeter"}) == "agents_list"
        for tool, arguments, named in (
            ("agents_create", {"name": "waver", "spec": SPEC}, "waver"),
            ("agents_delete", {"name": made["uid"]}, "greeter"),
            ("agents_restart", {"name": "greeter", "now": True}, "greeter"),
            ("agents_stop", {"name": "library"}, "library"),
            ("agents_stop", {"name": "library", "cascade": True}, "library, agent/research"),
            ("ask_agent", {"agent_uri": made["uri"], "prompt": "Hi"}, "greeter"),
            ("ask_agent", {"name": "greeter", "prompt": "Hi"}, "greeter"),
            ("create_agent", {"agent_name": "waver", "description": "x"}, "waver"),
            ("agents_delete", {"name": "a, agent/b\n"}, "'a, agent/b\\n'"),
        ):
            assert audited(tool, arguments) == f"{tool} agent/{named}"
        secret = new_token("human")
        assert secret[:30] not in audited("agents_delete", {"name": f" {'x ' * 30}{secret}"})
        assert len(audited("agents_delete", {"name": "\x00" * 1_000_000})) < 1000
        for wrong in ({}, {"name": None}, {"name": ["greeter"]}, {"name": ""}):
            assert audited("agents_delete", wrong) == "agents_delete"
        assert audited("agents_delete agent/greeter", {}) == "'agents_delete agent/greeter'"

    on_door(tmp_path, do)


@asynccontextmanager
async def worker(door: Door, name: str, answer: Callable[[Json, Request], Any]) -> AsyncIterator[None]:
    """A worker that answers chat completions so, on a unix socket."""

    async def complete(request: Request) -> JSONResponse:
        found = answer(await request.json(), request)
        status, body = (
            found if isinstance(found, tuple) else (200, await found if asyncio.iscoroutine(found) else found)
        )
        return JSONResponse(body, status)

    path = door.bench.path.with_name("worker.sock")
    door.bench.upstreams[name] = AgentUpstream(
        name=name, uid=None, port=None, socket=str(path), key="the key"
    )
    await door.bench.directory.refresh()
    async with on_socket(Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])]), path):
        yield


def completion(text: str) -> Json:
    return {
        "choices": [{"message": {"content": text}}],
        "pallas": {"type": "turn", "usage": [{"model": "m-1"}]},
    }


def test_an_answer_that_is_no_whole_one_is_no_success(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        def answer(_: Json, __: Request) -> Json:
            told = {"type": "turn", "usage": [], "status": "incomplete", "reason": "empty"}
            return completion("") | {"pallas": told}

        async with worker(door, "library", answer):
            found = await door.call("ask_agent", person("run:agents:library"), prompt="Hi", name="library")
        assert (found["status"], found["reason"]) == ("incomplete", "empty")
        assert "without a word" in found["message"]

    on_door(tmp_path, do)


def test_an_agent_is_asked(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        asked: list[Json] = []

        def answer(body: Json, request: Request) -> Json:
            asked.append(
                {**body, "key": request.headers.get("pallas-key"), "id": request.headers["x-request-id"]}
            )
            return completion("Hello")

        who = person("run:agents:library")
        async with worker(door, "library", answer):
            ways: tuple[Json, ...] = (
                {"name": "library"},
                {"agent_uri": "library"},
                {"agent_uri": "agentlet://library"},
            )
            for said in ways:
                found = await door.call(
                    "ask_agent", who, prompt="Hi", tenant_id="default", user_id="ada", **said
                )
                assert found == {
                    "status": "success",
                    "response": {"answer": "Hello"},
                    "trace_id": "request-1",
                    "model": "m-1",
                }
            assert asked[0] == {
                "model": "library",
                "messages": [{"role": "user", "content": "Hi"}],
                "key": None,
                "id": "request-1",
            }
            await door.call("ask_agent", who, prompt="Hi", name="library", model="small")
            assert asked[-1]["model_override"] == "small"
            assert asked[-1]["key"] == "the key"
            await door.call("ask_agent", who, prompt="half a pair: \ud800", name="library")
            assert asked[-1]["messages"][0]["content"] == "half a pair: \ud800"
        with pytest.raises(McpError) as tenant:
            await door.call("ask_agent", who, prompt="Hi", name="library", tenant_id="other")
        assert tenant.value.code == TENANT_NOT_FOUND
        user = await door.call("ask_agent", who, prompt="Hi", name="library", user_id="eve")
        assert user["error"]["field"] == "user_id"
        with pytest.raises(McpError) as unknown:
            await door.call("ask_agent", who, prompt="Hi", name="research")
        assert unknown.value.code == AGENT_NOT_FOUND
        names_only = person("run:agents:library", "run:resources", "view:agents")
        with pytest.raises(InsufficientScopeError, match="run:agents:research"):
            await door.call("ask_agent", names_only, prompt="Hi", name="research")
        away = await door.call("ask_agent", who, prompt="Hi", name="library")
        assert away["error"]["type"] == "agent_unreachable"

    on_door(tmp_path, do)


def test_a_created_agent_answers_by_its_schema(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        prompt = "You count words.\nAll of them."
        schema = {"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]}
        # There is no default_model here: the model is what the supervisor would say.
        found = await door.call(
            "create_agent", agent_name="counter", description=prompt, output_schema=schema
        )
        assert found == {
            "status": "success",
            "agent_uri": "agentlet://user/ada/counter",
            "message": "Agent created successfully",
        }, found
        ada, eve = person("*"), person("*", name="eve")
        await door.call("agents_create", eve, name="ada-greeter", spec=SPEC)
        for who, mine in ((ada, ["counter"]), (eve, ["ada-greeter"]), (person("*", name="counter"), [])):
            listed = await door.read("my-agents://list", who)
            assert [each["fully_qualified_name"] for each in listed] == mine
        agentlet = await door.read("agentlet://user/ada/counter")
        assert (agentlet["description"], agentlet["short_description"]) == (prompt, "You count words.")
        assert agentlet["output_schema"] == schema
        async with worker(door, "counter", lambda *_: completion('{"words": 2}')):
            answer = await door.call("ask_agent", agent_uri=found["agent_uri"], prompt="a b")
            assert answer["response"] == {"words": 2}
        with pytest.raises(McpError):
            await door.call("ask_agent", agent_uri="agentlet://user/eve/counter", prompt="a b")

    on_door(tmp_path, do)


def test_values_of_variables_are_for_who_may_change_the_agent(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        spec = {**SPEC, "run": {"env": {"KEY": "a value"}}}
        await door.call("agents_create", name="a", spec=spec)
        for resource in ("info", "snapshot"):
            for who, known in (
                (person("view:agents"), False),
                (person("view:agents", "edit:agents:a"), True),
            ):
                read = await door.read(f"resource://agents/a/{resource}", who)
                assert ("a value" in json.dumps(read)) is known

    on_door(tmp_path, do)


def test_creating_an_agent_does_not_tell_which_servers_there_are(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        git = document("server", "git", url="http://127.0.0.1:9/mcp")
        await door.bench.rig.applying.apply([file("b.yaml", git)], "root")
        await door.bench.until(lambda: "git" in door.bench.directory.resources("server"))
        creator = person("create:agents")
        for server in ("git", "nothing"):
            asked: Json = {
                "agent_name": "a",
                "description": "x",
                "output_schema": {},
                "tools": [f"{server}__log"],
            }
            with pytest.raises(InsufficientScopeError, match=f"run:resources:server/{server}"):
                await door.call("create_agent", creator, **asked)

    on_door(tmp_path, do)


def test_an_agent_is_not_created_with_tools_of_no_server(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        servers = [document("server", name, url="http://127.0.0.1:9/mcp") for name in ("search", "hidden")]
        await door.bench.rig.applying.apply([file("b.yaml", *servers)], "root")
        await door.bench.until(lambda: len(door.bench.directory.resources("server")) == 2)
        creator = person("create:agents", "view:agents", "run:resources:server/se*")
        asked: Json = {"agent_name": "a", "description": "x", "output_schema": {}}
        for tools, index, said in (
            (["search__find", "serch__find"], 1, "did you mean search__…?"),
            (["find"], 0, "write server__tool"),
            (["hid*__find"], 0, "write server__tool"),
        ):
            who = person("*") if "serch__find" in tools else creator
            error = (await door.call("create_agent", who, **asked, tools=tools))["error"]
            assert (error["type"], error["field"]) == ("invalid_argument", f"tools.{index}")
            assert said in error["message"]
            assert "hidden" not in error["message"]
        for name, tools in (("by-name", ["search__find"]), ("by-pattern", ["*__find"]), ("by-all", ["*"])):
            made = await door.call("create_agent", creator, **{**asked, "agent_name": name}, tools=tools)
            assert made["status"] == "success", made
            spec = (await door.read(f"resource://agents/{name}/info"))["spec"]
            assert (spec["servers"], spec["tools"]) == (["search"], tools)

    on_door(tmp_path, do)


def test_progress_is_told_and_a_failure_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def do(door: Door) -> None:
        async def slow() -> Json:
            async with asyncio.timeout(10):
                while not door.told:  # noqa: ASYNC110 - told by the code that is tested
                    await asyncio.sleep(0.005)
            return completion("At last")

        monkeypatch.setattr(asking, "PROGRESS_INTERVAL", 0.01)
        async with worker(door, "library", lambda *_: slow()):
            found = await door.call("ask_agent", name="library", prompt="Hi", meta={"progressToken": "t"})
        assert found["response"] == {"answer": "At last"}
        assert door.told[0]["method"] == "notifications/progress"
        assert door.told[0]["params"]["progressToken"] == "t"
        busy = {"error": {"message": "the agent is busy", "code": "agent_busy"}}
        async with worker(door, "library", lambda *_: (429, busy)):
            found = await door.call("ask_agent", name="library", prompt="Hi")
        assert found["error"] == {"type": "agent_busy", "message": "the agent is busy"}
        away = json.loads(render(Unavailable("agent library is stopped", 5)).partition(b"\r\n\r\n")[2])
        async with worker(door, "library", lambda *_: (503, away)):
            found = await door.call("ask_agent", name="library", prompt="Hi")
        assert found["error"] == {"type": "agent_unavailable", "message": "agent library is stopped"}

    on_door(tmp_path, do)


def test_every_resource_and_template_can_be_read(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        assert [each["uri"] for each in await door.surface().resources()] == [each.uri for each in RESOURCES]
        assert [each["uriTemplate"] for each in await door.surface().templates()] == [
            each.uri for each in TEMPLATES
        ]
        assert names(await door.read("resource://agents/list")) == ["library", "research"]
        info = await door.read("resource://agents/library/info")
        assert (info["name"], info["created_at"], info["spec"]["description"]) == (
            "library",
            None,
            "The agent library",
        )
        assert (await door.read("resource://agents/library/state"))["state"] == "suspended"
        snapshot = await door.read("resource://agents/research/snapshot")
        assert (snapshot["agent"]["name"], snapshot["mcp"]) == ("research", [])
        assert {"assistant", "extractor", "reviewer"} <= set(
            names(await door.read("resource://presets/list"))
        )
        container = await door.read("resource://container.info")
        assert container["python"]["version"].startswith("3.")
        system = [each["fully_qualified_name"] for each in await door.read("system-agents://list")]
        assert system[:2] == ["library", "research"]
        assert "preset/assistant" in system
        assert (await door.read("agentlet://library"))["fully_qualified_name"] == "library"
        for uri in (
            "resource://compositor_meta/state/git",
            "resource://compositor_meta/state/git?agent=library",
        ):
            with pytest.raises(McpError) as nothing:
                await door.read(uri)
            assert nothing.value.code == INVALID_PARAMS
        for uri in (
            "resource://agents/nobody/info",
            "resource://agents/",
            "file:///etc/passwd",
            "agentlet://user/a/b",
        ):
            with pytest.raises(McpError):
                await door.read(uri)

    on_door(tmp_path, do)


def test_conversations_are_ones_own_and_bounded(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        uid = (await door.call("agents_create", name="greeter", spec=SPEC))["agent"]["uid"]

        def fill(connection: Connection) -> None:
            rows.make_thread(connection, "under way", owner="id of ada", agent="greeter", key=uid)
            rows.begin(connection, "under way", "turn 1", rows.user("hello"))
            rows.make_thread(connection, "failed", owner="id of ada", agent="greeter", key=uid)
            rows.begin(connection, "failed", "turn 2", rows.user("hello"))
            rows.fail(connection, "failed", "turn 2", "it broke")
            rows.make_thread(connection, "another's", owner="id of eve", agent="greeter", key=uid)
            rows.talk(connection, "another's", "turn 3", "hello", "secret")
            for number in range(25):
                rows.make_thread(connection, f"more {number}", owner="id of ada", agent="library")
                rows.talk(connection, f"more {number}", f"turn {number}", "hello", *said * 20)

        large = '{"a": "%s"}' % ("x" * 5000)
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        said = [
            Row(role="assistant", content="é" * 5000, tool_calls=(ToolCall("c", "s__t", large),)),
            Row(role="tool", content="y" * 70_000, tool_call_id="c"),
            Row(role="assistant", content=[{"type": "text", "text": "done"}, image]),
        ]
        await door.store.write(fill)
        uri, everybody = f"resource://agents/{uid}/ui/state", person("*")
        state = await door.read(uri)
        assert state["agent"] == "greeter"
        assert [(each["id"], each["state"]) for each in state["threads"]] == [
            ("under way", "running"),
            ("failed", "idle"),
        ], "eve's is hers, whatever one may view"
        assert state["thread"] == state["threads"][0]
        assert [(each["role"], each["status"]) for each in state["messages"]] == [
            ("user", "complete"),
            ("assistant", "pending"),
        ]
        snapshot = await door.read("resource://agents/greeter/snapshot", everybody)
        assert [(each["threadId"], each["state"], each["error"]) for each in snapshot["runs"]] == [
            ("under way", "running", None),
            ("failed", "failed", "it broke"),
        ]
        state = await door.read("resource://agents/library/ui/state")
        assert len(state["threads"]) == 20
        assert len(state["messages"]) == 50
        called, answered, last = state["messages"][-3:]
        assert (called["content"], called["isCut"]) == ("é" * 4000, True)
        assert called["toolCalls"][0]["arguments"] == large[:4000]
        assert (answered["content"], answered["isCut"]) == ("", True), "so much is not even read"
        assert (last["content"], "parts" in last, "isCut" in last) == ("done", False, False)
        assert len(json.dumps(state)) < 1_000_000
        eve = person("view:agents", name="eve")
        assert [each["id"] for each in (await door.read(uri, eve))["threads"]] == ["another's"]
        with pytest.raises(McpError):
            await door.read(uri, person("view:agents:library"))

    on_door(tmp_path, do)


def test_conversations_are_heard_of_by_their_owner(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        state, snapshot = (f"resource://agents/library/{each}" for each in ("ui/state", "snapshot"))
        own = topics.threads_with("library", "id of ada")
        assert door.surface().topics(state) == (own,)
        assert door.surface().topics(snapshot) == (topics.agent_snapshot("library"), own)
        assert door.surface(person("*", name="eve")).topics(state) != (own,)

    on_door(tmp_path, do)


def test_one_reads_completes_and_hears_of_what_one_may_view(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        who = person("view:agents:library")
        surface = door.surface(who)
        assert names(await door.read("resource://agents/list", who)) == ["library"]
        for template in TEMPLATES:
            uri = template.uri.replace("{agent_id}", "research").replace(
                "{server}{?agent}", "s?agent=research"
            )
            uri = uri.replace("{uri}", "research")
            with pytest.raises(McpError):
                await door.read(uri, who)
            assert not surface.may_subscribe(uri), uri
            assert surface.may_subscribe(uri.replace("research", "library")), uri
        assert all(surface.may_subscribe(each.uri) for each in RESOURCES)
        assert not door.surface(person("run:agents")).may_subscribe("resource://agents/list")
        assert surface.topics("resource://agents/library/state") == (topics.agent_state("library"),)
        ref = {"type": "ref/resource", "uri": "resource://agents/{agent_id}/info"}
        for value, found in (("l", ["library"]), ("", ["library"]), ("r", [])):
            answer = await surface.complete(ref, {"name": "agent_id", "value": value}, door.request(who))
            assert answer["completion"]["values"] == found

    on_door(tmp_path, do)


def test_presets_of_the_project_are_there_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def do(door: Door) -> None:
        folder = tmp_path / "presets"
        await asyncio.to_thread(folder.mkdir)
        await asyncio.to_thread(
            (folder / "a.yaml").write_text, agent("mine") + "\n---\n" + document("llm", "l")
        )
        await asyncio.to_thread((folder / "bad.yaml").write_text, "kind: [")
        await asyncio.to_thread((folder / "card.md").write_text, "---\nname: card\n---\nHello")
        found = {each["name"]: each["kind"] for each in await door.read("resource://presets/list")}
        assert (found["card"], found["bad"], found["assistant"]) == ("card", "error", "agent")

    on_door(tmp_path, do)


def test_a_caller_that_goes_away_takes_the_turn_with_it(tmp_path: Path) -> None:
    async def do(door: Door) -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def wait_for_the_end(request: Request) -> Json:
            begun.set()
            while (await request.receive())["type"] != "http.disconnect":
                pass
            ended.set()
            return {}

        async with worker(door, "library", lambda _, request: wait_for_the_end(request)):
            call = asyncio.create_task(door.call("ask_agent", name="library", prompt="Hi"))
            async with asyncio.timeout(10):
                await begun.wait()
                call.cancel()
                await ended.wait()
            assert (await asyncio.gather(call, return_exceptions=True))[0].__class__ is asyncio.CancelledError

    on_door(tmp_path, do)
