"""`/v1/resources` over ASGI, on a real fleet without processes: every route and refusal, and no value in an answer."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pallas_registry.resources.files import file_of
from pallas_registry.resources.model import ResourceId
from pallas_supervisor.http.control import resources as routes
from support.supervisor.declared import VALUE, agent, document, llm, open_llm, secret
from support.supervisor.rig import Rig, rig, two_agents

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

type Answer = Any


class Bench:
    """A rig and an HTTP client of its control API."""

    def __init__(self, rig: Rig, client: httpx.AsyncClient) -> None:
        self.rig = rig
        self.client = client

    async def ask(
        self, method: str, path: str, status: int = 200, body: object = None, **headers: str
    ) -> Answer:
        content = body if isinstance(body, str | bytes) or body is None else json.dumps(body)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await self.client.request(method, f"/v1/resources{path}", content=content, headers=given)
        assert VALUE not in response.text
        assert response.status_code == status, response.text
        return response.json()

    async def apply(self, *texts: str, status: int = 200, **options: bool) -> Answer:
        files = [{"file": f"{number}.yaml", "text": text} for number, text in enumerate(texts)]
        return await self.ask("POST", "", status, {"files": files, **options})

    async def usual(self) -> None:
        """A secret, a model and an agent."""
        assert len((await self.apply("\n---\n".join((secret(), llm(), agent()))))["results"]) == 3


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory."""
    monkeypatch.setenv("PALLAS_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def on_bench(directory: Path, do: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        async with rig(directory, two_agents()) as made:
            transport = httpx.ASGITransport(made.control_api(), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://pallas") as client:
                await do(Bench(made, client))

    asyncio.run(run())


def words(answer: Answer) -> list[str]:
    return [f"{each['resource']} {each['outcome']}" for each in answer["results"]]


def test_an_apply_says_what_becomes_of_each(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        answer = await bench.apply(f"{secret()}\n---\n{llm()}", agent("broken", colour="red"), agent())
        assert words(answer) == ["secret/keys created", "llm/small created", "agent/deployer created"]
        assert answer["results"][2] == {
            "resource": "agent/deployer",
            "outcome": "created",
            "file": "2.yaml",
            "problems": [],
        }
        [problem] = answer["problems"]
        assert problem.startswith("1.yaml:1: spec.colour: ")
        refused = await bench.apply(agent("other", llm="smal"))
        assert words(refused) == ["agent/other refused"]
        assert (
            "spec.llm: there is no llm 'smal'; did you mean 'small'?" in refused["results"][0]["problems"][0]
        )
        assert words(await bench.apply(agent(), dry_run=True)) == ["agent/deployer unchanged"]
        assert words(await bench.apply(secret(), llm(), prune=True))[2:] == ["agent/deployer pruned"]

    on_bench(tmp_path, do)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is {"),
        (b"[", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "the body is {"),
        (b"{}", "the body is {"),
        (b'{"files": {}}', "the body is {"),
        (b'{"files": [], "more": 1}', "the body is {"),
        (b'{"files": [], "delete": []}', "the body is {"),
        (b'{"delete": {}}', "the body is {"),
        (b'{"delete": [], "prune": true}', "the body is {"),
        (b'{"delete": ["agent/x", 1]}', "`delete[1]` is not KIND/NAME"),
        (b'{"delete": ["agent"]}', "`delete[0]` is not KIND/NAME"),
        (b'{"delete": ["dog/x"]}', "kinds are agent, llm,"),
        (b'{"delete": ["agent/\\ud800"]}', "`delete[0]` is not KIND/NAME"),
        (json.dumps({"delete": ["llm/a"] * 10_001}).encode(), "10000 are allowed"),
        (b'{"files": [], "prune": 1}', "`prune` is true or false"),
        (b'{"files": [1]}', "`files[0]` is not {"),
        (b'{"files": [{"file": "a", "text": 1}]}', "are texts"),
        (b'{"files": [{"file": "", "text": ""}]}', "1 to 4096 characters"),
        (json.dumps({"files": [{"file": "x" * 4097, "text": ""}]}).encode(), "1 to 4096 characters"),
        (json.dumps({"files": [0] * 10_001}).encode(), "10000 are allowed"),
    ],
)
def test_a_body_that_is_none_is_refused(tmp_path: Path, body: bytes, said: str) -> None:
    async def do(bench: Bench) -> None:
        assert said in (await bench.ask("POST", "", 422, body))["error"]

    on_bench(tmp_path, do)


def test_half_a_character_is_a_problem_of_its_file(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        answer = await bench.apply(f'{secret()}\n# "\ud800"')
        assert answer["results"] == []
        assert "0.yaml:2: the byte 0xed is not UTF-8" in answer["problems"][0]

    on_bench(tmp_path, do)


def test_a_body_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MAX_APPLY", 1000)

    async def do(bench: Bench) -> None:
        assert "longer than 1000 bytes" in (await bench.ask("POST", "", 413, b" " * 1001))["error"]
        assert "longer than 1000 bytes" in (await bench.ask("PUT", "/secret/a", 413, b" " * 1001))["error"]

    on_bench(tmp_path, do)


def test_all_agents_are_listed_with_their_status(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.usual()
        for word in ("agent", "agents"):
            items = (await bench.ask("GET", f"/{word}"))["items"]
            assert [each["metadata"]["name"] for each in items] == ["library", "research", "deployer"]
            assert [each["status"]["state"] for each in items] == ["stopped", "stopped", "idle"]
        in_file = items[1]
        assert in_file["metadata"]["source"]["file"].endswith("agents.yaml")
        assert in_file["metadata"]["source"]["line"] > 1
        assert (in_file["metadata"]["source"]["kind"], in_file["metadata"]["source"]["value"]) == (
            "module",
            "agents.research",
        )
        assert in_file["spec"]["description"] == "The agent research"
        assert in_file["spec"]["run"]["depends_on"] == ["library"]
        assert items[2]["spec"] == {"description": "It deploys", "llm": "small"}

    on_bench(tmp_path, do)


@pytest.mark.parametrize("kind", ["secret", "llm", "server", "project", "secrets", "LLMs"])
def test_every_kind_is_listed(tmp_path: Path, kind: str) -> None:
    async def do(bench: Bench) -> None:
        await bench.usual()
        items = (await bench.ask("GET", f"/{kind}"))["items"]
        there = {"secret": ["keys"], "secrets": ["keys"], "llm": ["small"], "LLMs": ["small"]}
        assert [each["metadata"]["name"] for each in items] == there.get(kind, [])

    on_bench(tmp_path, do)


def test_a_resource_is_found_by_name_and_by_uid(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.usual()
        found = await bench.ask("GET", "/llm/small")
        assert found == await bench.ask("GET", f"/llms/{found['metadata']['uid']}")
        assert found["metadata"]["version"] == 1
        assert {"owner", "createdAt", "updatedAt", "resourceVersion"} < set(found["metadata"])
        assert found["status"] == {"usedBy": ["agent/deployer"]}
        response = await bench.client.get("/v1/resources/llm/small")
        assert response.headers["etag"] == f'"{found["metadata"]["resourceVersion"]}"'
        assert (await bench.ask("GET", "/agent/deployer"))["status"]["state"] == "idle"

    on_bench(tmp_path, do)


def test_a_value_is_shown_by_its_digest_and_kept_where_that_is_applied(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.usual()
        shown = await bench.ask("GET", "/secret/keys")
        assert shown["spec"]["data"]["API_KEY"]["digest"].startswith("hmac-sha256:")
        assert words(await bench.apply(json.dumps(shown))) == ["secret/keys unchanged"]
        shown["spec"]["data"]["MORE"] = "another-value-of-it"
        assert words(await bench.apply(json.dumps(shown))) == ["secret/keys configured"]
        kept = bench.rig.manager.drift.taken.resources[ResourceId("secret", "keys")]
        assert kept.spec["data"] == {"API_KEY": VALUE, "MORE": "another-value-of-it"}

    on_bench(tmp_path, do)


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.usual()
        assert "did you mean 'small'?" in (await bench.ask("GET", "/llm/smal", 404))["error"]
        assert "there is no agent 'nobody'" in (await bench.ask("DELETE", "/agent/nobody", 404))["error"]
        for method in ("GET", "PUT", "DELETE"):
            assert "the kinds are agent, llm," in (await bench.ask(method, "/dog/x", 404))["error"]
        assert "the kinds are agent, llm," in (await bench.ask("GET", "/dogs", 404))["error"]

    on_bench(tmp_path, do)


def test_one_resource_is_put(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        made = await bench.ask("PUT", "/llm/open", 201, open_llm())
        assert made["metadata"]["version"] == 1
        as_yaml = "apiVersion: mcpctl.io/v1\nkind: llm\nmetadata: {name: open}\nspec: {type: openai, model: other}\n"
        changed = await bench.ask("PUT", "/llm/open", 200, as_yaml)
        assert (changed["metadata"]["version"], changed["spec"]["model"]) == (2, "other")
        planned = await bench.ask("PUT", "/llm/open?dry_run=1", 200, open_llm())
        assert words(planned) == ["llm/open configured"]
        assert await bench.ask("GET", "/llm/open") == changed | {"status": {"usedBy": []}}

    on_bench(tmp_path, do)


def test_what_is_put_is_what_the_path_says(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        for body in (llm("other"), secret("open"), "", f"{open_llm()}\n---\n{secret()}"):
            assert (
                "describe llm/open and nothing else"
                in (await bench.ask("PUT", "/llm/open", 422, body))["error"]
            )
        answer = await bench.ask("PUT", "/agent/x", 422, agent("x", colour="red", shape="round"))
        assert len(answer["problems"]) == 2
        answer = await bench.ask("PUT", "/agent/x", 422, agent("x"))
        assert answer["problems"] == [answer["error"]]
        assert "spec.llm: there is no llm 'small'" in answer["error"]

    on_bench(tmp_path, do)


def test_versions_are_compared(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.usual()
        old = (await bench.ask("GET", "/agent/deployer"))["metadata"]["resourceVersion"]
        body = agent(description="Other")
        new = await bench.ask("PUT", "/agent/deployer", 200, body, if_match=f'"{old}"')
        third = agent(description="Third")
        refused = await bench.ask("PUT", "/agent/deployer", 409, third, if_match=f'"{old}"')
        assert "has been changed since" in refused["error"]
        assert "spec.description" in refused["error"]
        said = document("agent", "deployer", resource_version=old, description="Third", llm="small")
        assert "has been changed since" in (await bench.ask("PUT", "/agent/deployer", 409, said))["error"]
        assert (
            "is there already"
            in (await bench.ask("PUT", "/agent/deployer", 409, third, if_none_match="*"))["error"]
        )
        await bench.ask("PUT", "/agent/deployer", if_match="*", body=body)
        await bench.ask("PUT", "/agent/another", 404, agent("another"), if_match="*")
        for wrong in ("", f'"{old}", "{old}"', "x"):
            refused = await bench.ask("PUT", "/agent/deployer", 422, third, if_match=wrong)
            assert "If-Match: has to be" in refused["error"]
        await bench.ask("DELETE", "/agent/deployer", 409, if_match=f'"{old}"')
        current = new["metadata"]["resourceVersion"]
        assert words(await bench.ask("DELETE", "/agent/deployer", if_match=f'"{current}"')) == [
            "agent/deployer deleted"
        ]

    on_bench(tmp_path, do)


def test_what_is_in_use_is_not_deleted(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.usual()
        assert (
            "llm/small: is used by agent/deployer" in (await bench.ask("DELETE", "/llm/small", 409))["error"]
        )
        assert words(await bench.ask("DELETE", "/agents/deployer")) == ["agent/deployer deleted"]
        assert words(await bench.ask("DELETE", "/llms/small")) == ["llm/small deleted"]

    on_bench(tmp_path, do)


def test_several_are_deleted_by_one_request(tmp_path: Path, state: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.usual()
        await bench.apply(open_llm())
        uid = (await bench.ask("GET", "/llm/open"))["metadata"]["uid"]
        names = ["secret/keys", "llms/small", "agent/deployer", "agent/library", "agent/nobody", f"llm/{uid}"]
        refused = await bench.ask("POST", "", body={"delete": names[:2]})
        assert words(refused) == ["secret/keys refused", "llm/small refused"]
        assert "llm/small: is used by agent/deployer" in refused["results"][1]["problems"][0]
        done = [*(f"{name} deleted" for name in ("secret/keys", "llm/small", "agent/deployer"))]
        done += ["agent/library refused", "agent/nobody missing", "llm/open deleted"]
        planned = await bench.ask("POST", "", body={"delete": names, "dry_run": True})
        assert (words(planned), planned["dry_run"]) == (done, True)
        assert file_of(state, ResourceId("llm", "small")).exists()
        assert words(await bench.ask("POST", "", body={"delete": names})) == done
        assert not file_of(state, ResourceId("llm", "small")).exists()
        assert set(bench.rig.manager.drift.taken.deployment.agents) == {"library", "research"}

    on_bench(tmp_path, do)


def test_agents_of_agents_yaml_are_changed_there(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.apply(open_llm())
        body = agent("library", llm="open")
        for method, given in (("PUT", body), ("DELETE", None)):
            error = (await bench.ask(method, "/agent/library", 409, given))["error"]
            assert f"edit {tmp_path / 'agents.yaml'}, line " in error
        applied = await bench.apply(body)
        assert words(applied) == ["agent/library refused"]

    on_bench(tmp_path, do)


def test_what_cannot_be_used_says_why(tmp_path: Path, state: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.usual()
        file_of(state, ResourceId("llm", "small")).write_text("kind: [")
        await bench.rig.reloading.reload(dry_run=False)
        broken = await bench.ask("GET", "/llm/small")
        assert "spec" not in broken
        assert broken["status"]["error"] == "llm/small cannot be used: one problem"
        assert "small.yaml:" in broken["status"]["problems"][0]
        listed = (await bench.ask("GET", "/agents"))["items"]
        [deployer] = [each for each in listed if each["metadata"]["name"] == "deployer"]
        assert deployer["spec"]["llm"] == "small"
        assert "there is no llm 'small'" in deployer["status"]["problems"][0]
        assert "is used by agent/deployer" in (await bench.ask("DELETE", "/llm/small", 409))["error"]
        assert words(await bench.apply(llm())) == ["llm/small configured"]
        assert (await bench.ask("GET", "/agent/deployer"))["status"]["state"] == "idle"

    on_bench(tmp_path, do)


def test_what_cannot_be_written_is_the_disks_fault(tmp_path: Path, state: Path) -> None:
    async def do(bench: Bench) -> None:
        assert "nothing was changed" in (await bench.apply(secret(), status=507))["error"]

    state.touch()
    on_bench(tmp_path, do)


def test_the_status_document_names_the_state_directory(tmp_path: Path, state: Path) -> None:
    async def do(bench: Bench) -> None:
        response = await bench.client.get("/v1/status")
        assert response.json()["supervisor"]["state_directory"] == str(state)

    on_bench(tmp_path, do)


def test_who_asks_for_others_says_whose_a_resource_is(tmp_path: Path) -> None:
    async def do(bench: Bench) -> None:
        await bench.ask("PUT", "/llm/open", 201, open_llm(), Pallas_Owner="Ren%C3%A9e")
        assert (await bench.ask("GET", "/llm/open"))["metadata"]["owner"] == "Renée"
        for wrong in ("", "a%0Ab", "x" * 201):
            refused = await bench.ask("PUT", "/llm/more", 422, open_llm("more"), Pallas_Owner=wrong)
            assert refused["error"].startswith("Pallas-Owner: ")

    on_bench(tmp_path, do)
