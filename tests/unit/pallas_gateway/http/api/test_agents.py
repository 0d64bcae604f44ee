"""`/api/v1/agents` on a real control API: in the reference's words, with its grants, and agents of agents.yaml too."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from pallas_gateway.http.api.agents import agent_routes
from pallas_gateway.http.api.declared import Declared
from pallas_gateway.http.openapi.operations.agents import PATH
from support.gateway.http.port import gateway_port
from support.gateway.mirror import Bench, on_bench
from support.supervisor.declared import document, llm, open_llm, secret

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    import httpx

    from support.gateway.http.port import GatewayPort

SPEC: dict[str, Any] = {
    "description": "I help you deploy code",
    "llm": "small",
    "project": "team",
    "systemPrompt": "Deploy.",
    "defaultParams": {"temperature": 0.2, "stop": ["</deploy>"]},
    "proxyModelName": "qwen",
    "extras": {"lora": "x"},
}


class Api:
    """The routes as principals with some grants meet them."""

    def __init__(self, port: GatewayPort, bench: Bench) -> None:
        self.port = port
        self.bench = bench

    async def ask(
        self, method: str, path: str, *grants: str, status: int = 200, body: Any = None, **headers: str
    ) -> Any:
        answer = await self.answer(method, path, *grants, body=body, **headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def answer(
        self, method: str, path: str, *grants: str, body: Any = None, **headers: str
    ) -> httpx.Response:
        token = self.port.token("ada", *grants)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        json_ = {} if body is None else {"json": body}
        return await self.port.ask(method, PATH + path, token, headers=named, **json_)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALLAS_STATE_DIR", str(tmp_path / "state"))


def on_api(tmp_path: Path, do: Callable[[Api], Awaitable[None]]) -> None:
    async def run(bench: Bench) -> None:
        declared = Declared(bench.directory.client, lambda: bench.directory.agents)
        team = document("project", "team", description="The team")
        files = [{"file": "a", "text": "\n---\n".join((secret(), llm(), open_llm(), team))}]
        content = json.dumps({"files": files}).encode()
        answer = await bench.directory.client.ask(
            "POST", "/v1/resources", content=content, content_type="application/json"
        )
        assert answer.status == 200, answer
        await bench.until(lambda: "team" in bench.directory.projects)
        async with gateway_port(
            tmp_path,
            lambda shared: agent_routes(bench.directory, declared, shared.audit),
            requests_per_minute=10_000,
            tenant_requests_per_minute=10_000,
        ) as port:
            await do(Api(port, bench))

    on_bench(tmp_path, run)


def test_an_agent_lives_in_the_references_words(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        made = await api.ask("POST", "", "*", body={"name": "deployer", **SPEC}, status=201)
        assert made | SPEC == made
        assert made["model"] == "openai.m"
        assert (made["ownerId"], made["version"], made["source"]) == ("Ada", 1, {"kind": "resource"})
        assert made["state"] == "idle"
        assert made["createdAt"]
        assert "deployer" in api.bench.directory.agents, "it can be asked at once"
        assert await api.ask("GET", "/deployer", "view:agents:deployer") == made
        assert await api.ask("GET", f"/{made['id']}", "view:agents:deployer") == made
        changed = await api.ask("PUT", "/deployer", "*", body={"description": "I deploy"})
        expected = {**made, "description": "I deploy", "version": 2, "updatedAt": changed["updatedAt"]}
        assert changed == expected, "all else stays as it was"
        assert await api.ask("PUT", f"/{made['id']}", "*", body=changed) == changed, "as it was read"
        cleared = await api.ask("PUT", "/deployer", "*", body={"systemPrompt": None, "defaultParams": None})
        assert (cleared["systemPrompt"], cleared["defaultParams"]) == (None, {})
        whole = await api.ask("PUT", "/deployer", "*", body={"spec": {"model": "passthrough"}})
        assert (whole["model"], whole["llm"], whole["project"]) == ("passthrough", None, None)
        assert await api.ask("DELETE", "/deployer", "*") == {"deleted": "deployer"}
        assert "deployer" not in api.bench.directory.agents
        await api.ask("GET", "/deployer", "*", status=404)
        assert api.port.audited() == [
            "ada agents/create agent/deployer ok",
            *["ada agents/update agent/deployer ok"] * 4,
            "ada agents/delete agent/deployer ok",
        ]

    on_api(tmp_path, do)


def test_references_may_be_written_in_every_way(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        uid = api.bench.directory.resources("llm")["small"].uid
        ways: list[dict[str, Any]] = [
            {"llm": "small"},
            {"llm": {"name": "small"}},
            {"llm": {"id": uid}},
            {"llm": uid},
            {"llmId": uid, "projectId": api.bench.directory.projects["team"].uid},
            {"llmId": "small", "llm": "small", "project": {"name": "team"}},
        ]
        for number, way in enumerate(ways):
            made = await api.ask("POST", "", "*", body={"name": f"a{number}", **way}, status=201)
            assert made["llm"] == "small"
            assert made["project"] == ("team" if number >= 4 else None)
        other = await api.ask("PUT", "/a0", "*", body={"llm": "open"})
        assert other["llm"] == "open"
        by_model = await api.ask("PUT", "/a0", "*", body={"model": "passthrough"})
        assert (by_model["llm"], by_model["model"]) == (None, "passthrough")
        back = await api.ask("PUT", "/a0", "*", body={"llm": "small"})
        assert (back["llm"], back["model"]) == ("small", "openai.m")

    on_api(tmp_path, do)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "a b"}, "name"),
        ({"name": 1}, "name"),
        ({"nmae": "x"}, "nmae"),
        ({"defaultParams": {"temperature": 3}}, "defaultParams.temperature"),
        ({"defaultParams": {"stop": ["a"] * 5}}, "defaultParams.stop"),
        ({"systemPrompt": 5}, "systemPrompt"),
        ({"llm": {"nmae": "x"}}, "llm"),
        ({"llm": 5}, "llm"),
        ({"llm": "nobody"}, "llm"),
        ({"llm": "small", "llmId": "other"}, "llmId"),
        ({"llm": "small", "model": "passthrough"}, "model"),
        ({"project": "nobody"}, "project"),
        ({"spec": {"model": "passthrough"}, "llm": "small"}, "llm"),
        ({"spec": []}, "spec"),
        ({"id": "x"}, "id"),
        ({"version": "1"}, "version"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, fields: dict[str, Any], field: str) -> None:
    async def do(api: Api) -> None:
        error = (await api.ask("POST", "", "*", body={"name": "x", **fields}, status=400))["error"]
        assert (error["type"], error["field"]) == ("invalid", field)
        assert error["message"].startswith(f"{field}")
        assert "the request" not in error["message"]

    on_api(tmp_path, do)


def test_agents_of_the_file_are_listed_and_stay_as_they_are(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        await api.ask("POST", "", "*", body={"name": "deployer", "llm": "small"}, status=201)
        listed = await api.ask("GET", "", "view:agents")
        assert [each["name"] for each in listed["items"]] == ["deployer", "library", "research"]
        assert listed["nextCursor"] is None
        research = listed["items"][2]
        assert research == await api.ask("GET", "/research", "view:agents")
        assert (research["id"], research["version"], research["state"]) == ("research", None, "suspended")
        assert research["source"] == {"kind": "module", "file": "agents.yaml", "line": 8}
        for method, body in (("PUT", {"description": "x"}), ("DELETE", None)):
            error = (await api.ask(method, "/research", "*", body=body, status=409))["error"]
            assert error["type"] == "declared_in_file"
            assert "agents.yaml, line 8" in error["message"]
        error = (await api.ask("POST", "", "*", body={"name": "research", **SPEC}, status=409))["error"]
        assert "agents.yaml, line 8" in error["message"]
        assert str(tmp_path) not in error["message"]

    on_api(tmp_path, do)


def test_lists_come_in_pages(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        names, cursor = [], ""
        while True:
            found = await api.ask("GET", f"?limit=1{cursor}", "view:agents")
            names += [each["name"] for each in found["items"]]
            if found["nextCursor"] is None:
                break
            cursor = f"&cursor={found['nextCursor']}"
        assert names == ["library", "research"]
        cursors = [f"cursor={each}" for each in ("x", "bnVsbA", "WzFd", "x" * 2000)]
        for query in ("limit=0", "limit=1001", "limit=x", "limit=1&limit=2", *cursors):
            error = (await api.ask("GET", f"?{query}", "view:agents", status=400))["error"]
            assert error["field"] == query.partition("=")[0]

    on_api(tmp_path, do)


def test_each_verb_takes_its_grant(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        body = {"name": "deployer", "llm": "small"}
        await api.ask("POST", "", "create:agents", body=body, status=403)
        made = await api.ask(
            "POST", "", "create:agents:deployer", "run:resources:llm/small", body=body, status=201
        )
        assert set(made) == {"id", "name"}, "who may not view it is not shown it"
        for grant in ("run:agents", "edit:agents", "view:projects"):
            await api.ask("GET", "", grant, status=403)
            await api.ask("GET", "/deployer", grant, status=404)
        seen = await api.ask("GET", "", "view:agents:dep*")
        assert [each["name"] for each in seen["items"]] == ["deployer"]
        await api.ask("PUT", "/deployer", "view:agents", body={"description": "x"}, status=403)
        await api.ask("PUT", "/deployer", "edit:agents:other", body={"description": "x"}, status=404)
        await api.ask("PUT", "/deployer", "edit:agents", body={"llm": "open"}, status=403)
        await api.ask("DELETE", "/deployer", "view:agents", "edit:agents", status=403)
        await api.ask("DELETE", "/deployer", "delete:agents:deployer")
        agent = api.port.token("its", "run:agents", agent="library")
        refused = await api.port.ask("GET", PATH, agent)
        assert refused.status_code == 403
        assert 'scope="view:agents"' in refused.headers["www-authenticate"]

    on_api(tmp_path, do)


def test_agents_of_a_project(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        for name, fields in (("one", {"project": "team"}), ("two", {})):
            body = {"name": name, "llm": "small", **fields}
            await api.ask("POST", "", "*", body=body, status=201)
        uid = api.bench.directory.projects["team"].uid
        for said in ("team", uid):
            found = await api.ask("GET", f"/../projects/{said}/agents", "view:projects:team")
            assert [each["name"] for each in found["items"]] == ["one"]
        await api.ask("GET", "/../projects/team/agents", "view:agents", status=403)
        await api.ask("GET", "/../projects/team/agents", "view:projects:other", status=404)
        await api.ask("GET", "/../projects/other/agents", "view:projects", status=404)

    on_api(tmp_path, do)


def test_changes_of_two_do_not_undo_each_other(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        made = await api.answer("POST", "", "*", body={"name": "deployer", "llm": "small"})
        etag = made.headers["etag"]
        await api.ask("PUT", "/deployer", "*", body={"description": "x"}, If_Match=etag)
        await api.ask("PUT", "/deployer", "*", body={"description": "y"}, If_Match=etag, status=409)
        error = await api.ask("PUT", "/deployer", "*", body={"version": 1, "description": "y"}, status=409)
        assert error["error"]["field"] == "version"
        await api.ask("DELETE", "/deployer", "*", If_Match=etag, status=409)
        done = await api.ask("PUT", "/deployer", "*", body={"version": 2, "systemPrompt": "y"})
        assert (done["description"], done["systemPrompt"], done["version"]) == ("x", "y", 3)

    on_api(tmp_path, do)


def test_changes_at_the_same_time_are_all_made(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        await api.ask("POST", "", "*", body={"name": "deployer", "llm": "small"}, status=201)
        changes: list[dict[str, Any]] = [
            {"description": "x"},
            {"systemPrompt": "y"},
            {"proxyModelName": "z"},
            {"defaultParams": {"seed": 1}},
        ]
        await asyncio.gather(*(api.ask("PUT", "/deployer", "*", body=each) for each in changes))
        found = await api.ask("GET", "/deployer", "*")
        assert all(found[name] == value for each in changes for name, value in each.items()), found
        assert found["version"] == 5

    on_api(tmp_path, do)
