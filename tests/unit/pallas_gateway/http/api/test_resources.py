"""`/api/v1/resources` on a real control API: what one may see and change of it, and what is written into the audit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.applications import Starlette

from pallas_gateway.access.audit import FILE, Audit
from pallas_gateway.access.reading import HIDDEN
from pallas_gateway.http.api.declared import Declared
from pallas_gateway.http.api.resources import resource_routes
from pallas_gateway.http.errors import Refusals
from pallas_gateway.http.openapi.operations.resources import PATH
from pallas_gateway.http.requests import ADMITTED
from pallas_gateway.identity.grants import parse_grant
from pallas_gateway.identity.principal import Principal
from pallas_gateway.mcp.admitted import Admitted
from support.gateway.mirror import Bench, on_bench
from support.supervisor.declared import VALUE, agent, document, llm, open_llm, secret

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send


@dataclass
class Api:
    """The routes as principals with some grants meet them."""

    routes: Starlette
    audit: Path

    async def ask(
        self,
        method: str,
        path: str,
        *grants: str,
        status: int = 200,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        principal = Principal(id="id", name="Renée", role="human", grants=tuple(map(parse_grant, grants)))
        admitted = Admitted(
            principal=principal,
            path=path,
            request_id="request-1",
            headers={},
            opens_stream=lambda: None,
            subscribes=lambda: None,
            most_subscriptions=0,
            longest_body=0,
        )

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await self.routes({**scope, ADMITTED: admitted}, receive, send)

        transport = httpx.ASGITransport(app)
        content = body if isinstance(body, str) or body is None else json.dumps(body)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            response = await client.request(method, PATH + path, content=content, headers=headers)
        assert VALUE not in response.text
        assert response.status_code == status, response.text
        return response.json() | ({"etag": response.headers["etag"]} if "etag" in response.headers else {})

    def audited(self) -> list[str]:
        lines = map(json.loads, self.audit.read_text().splitlines())
        return [f"{each['action']} {each['target']} {each['outcome']}" for each in lines]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALLAS_STATE_DIR", str(tmp_path / "state"))


def on_api(tmp_path: Path, do: Callable[[Api], Awaitable[None]]) -> None:
    async def run(bench: Bench) -> None:
        audit = Audit(tmp_path)
        refusals = Refusals("http://gateway")

        async def refuse(request: Request, error: Exception) -> Response:
            return refusals.of(error, request.url.path)

        routes = Starlette(
            routes=resource_routes(Declared(bench.directory.client, lambda: bench.directory.agents), audit),
            exception_handlers={Exception: refuse},
        )
        routes.exception_handlers.update(dict.fromkeys(Exception.__subclasses__(), refuse))
        try:
            await do(Api(routes, tmp_path / FILE))
        finally:
            audit.close()

    on_bench(tmp_path, run)


EVERYTHING = "*"


def names(answer: Any) -> list[str]:
    return [each["metadata"]["name"] for each in answer["items"]]


def test_everything_is_there_for_who_may_do_everything(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        files = [{"file": "a", "text": "\n---\n".join((secret(), llm(), agent()))}]
        done = await api.ask("POST", "", EVERYTHING, body={"files": files})
        assert [each["outcome"] for each in done["results"]] == ["created"] * 3
        assert names(await api.ask("GET", "/agents", EVERYTHING)) == ["library", "research", "deployer"]
        assert names(await api.ask("GET", "/secret", EVERYTHING)) == ["keys"]
        found = await api.ask("GET", "/llm/small", EVERYTHING)
        assert found["metadata"]["owner"] == "Renée"
        assert found["etag"] == f'"{found["metadata"]["resourceVersion"]}"'
        assert await api.ask("GET", f"/llm/{found['metadata']['uid']}", EVERYTHING) == found
        again = llm(model="larger")
        changed = await api.ask(
            "PUT", "/llm/small", EVERYTHING, body=again, headers={"If-Match": found["etag"]}
        )
        assert changed["metadata"]["version"] == 2
        late = await api.ask(
            "PUT", "/llm/small", EVERYTHING, status=409, body=llm(), headers={"If-Match": found["etag"]}
        )
        assert late["error"]["type"] == "conflict"
        used = await api.ask("DELETE", "/llm/small", EVERYTHING, status=409)
        assert "agent/deployer" in used["error"]["message"]
        await api.ask("DELETE", "/agent/deployer", EVERYTHING)
        gone = await api.ask("POST", "", EVERYTHING, body={"delete": ["llm/small", "secret/keys"]})
        assert [each["outcome"] for each in gone["results"]] == ["deleted", "deleted"]
        assert api.audited() == [
            "resources/apply secret/keys, llm/small, agent/deployer ok",
            "resources/put llm/small ok",
            "resources/put llm/small error",
            "resources/delete llm/small error",
            "resources/delete agent/deployer ok",
            "resources/delete llm/small, secret/keys ok",
        ]

    on_api(tmp_path, do)


def test_what_one_may_not_view_is_not_there(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        await api.ask("PUT", "/llm/open", EVERYTHING, status=201, body=open_llm())
        await api.ask("PUT", "/agent/a", EVERYTHING, status=201, body=agent("a", llm="open"))
        await api.ask("PUT", "/agent/b", EVERYTHING, status=201, body=agent("b", llm="open"))
        assert names(await api.ask("GET", "/agents", "view:agents:a")) == ["a"]
        assert names(await api.ask("GET", "/agents", "view:resources:agent/*")) == [
            "library",
            "research",
            "a",
            "b",
        ]
        refused = await api.ask("GET", "/llms", "view:agents", status=403)
        assert refused["error"]["type"] == "insufficient_scope"
        hidden = await api.ask("GET", "/agent/b", "view:agents:a", status=404)
        absent = await api.ask("GET", "/agent/c", "view:agents:a", status=404)
        assert hidden["error"]["message"].replace("'b'", "'c'") == absent["error"]["message"]
        assert (await api.ask("DELETE", "/agent/b", "delete:agents:a", status=404)) == hidden
        await api.ask("DELETE", "/agent/a", "view:agents:a", status=403)
        used = await api.ask("GET", "/llm/open", "view:resources:llm/open", "view:agents:a")
        assert used["status"]["usedBy"] == ["agent/a"]
        await api.ask("GET", "/wolves", EVERYTHING, status=404)
        await api.ask("GET", "/agents", status=403)

    on_api(tmp_path, do)


def test_what_may_not_be_viewed_is_named_in_no_refusal(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        await api.ask("PUT", "/llm/open", EVERYTHING, status=201, body=open_llm())
        for name in ("ours", "theirs"):
            await api.ask("PUT", f"/agent/{name}", EVERYTHING, status=201, body=agent(name, llm="open"))
        mine = ("delete:resources:llm/open", "view:resources:llm/open", "view:agents:ours")
        used = "is used by agent/ours, an agent that you may not view"
        refused = await api.ask("DELETE", "/llm/open", *mine, status=409)
        assert used in refused["error"]["message"]
        several = await api.ask("POST", "", *mine, body={"delete": ["llm/open"]})
        [result] = several["results"]
        assert used in "".join(result["problems"])
        assert "theirs" not in json.dumps([refused, several])
        near = ("create:agents", "run:resources:llm/open")
        broken = agent("mine", llm="open", run={"depends_on": ["their"]})
        denied = await api.ask("PUT", "/agent/mine", *near, "run:agents:their", status=422, body=broken)
        assert "theirs" not in denied["error"]["message"]
        shown = await api.ask("DELETE", "/llm/open", EVERYTHING, status=409)
        assert "agent/theirs" in shown["error"]["message"]

    on_api(tmp_path, do)


def far(text: str) -> str:
    """The resource, whose URL does not lead to this machine."""
    return text.replace("http://127.0.0.1:9/", "http://llm.test/")


def test_creating_is_not_editing(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        creator, editor = "create:resources:llm/*", "edit:resources:llm/*"
        await api.ask("PUT", "/llm/opal", EVERYTHING, status=201, body=open_llm("opal"))
        absent = await api.ask("PUT", "/llm/open", editor, status=404, body=far(open_llm()))
        assert "opal" not in absent["error"]["message"]
        await api.ask("PUT", "/llm/open", creator, status=201, body=far(open_llm()))
        other = document("llm", "open", type="openai", model="other", url="http://llm.test/v1")
        await api.ask("PUT", "/llm/open", creator, status=409, body=other)
        await api.ask("PUT", "/llm/open", creator, status=403, body=other, headers={"If-Match": "*"})
        await api.ask("PUT", "/llm/open", editor, body=other)
        await api.ask("PUT", "/llm/open", "view:resources", status=403, body=other)
        files = {"files": [{"file": "a", "text": other}]}
        await api.ask("POST", "", editor, status=403, body=files)
        await api.ask("POST", "", editor, creator, body=files)
        await api.ask("POST", "", editor, creator, status=403, body={**files, "prune": True})
        await api.ask("POST", "", editor, creator, status=403, body={"delete": ["llms/open"]})
        assert api.audited()[-4:] == [
            "resources/apply llm/open denied",
            "resources/apply llm/open ok",
            "resources/apply nothing denied",
            "resources/delete llms/open denied",
        ]
        await api.ask("PUT", "/llm/open?dry_run=1", editor, body=far(open_llm()))
        assert api.audited()[-1] == "resources/put (dry run) llm/open ok"

    on_api(tmp_path, do)


def test_writing_takes_the_rights_on_what_is_named_and_on_code(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        await api.ask("PUT", "/secret/keys", EVERYTHING, status=201, body=secret())
        with_key = await api.ask("PUT", "/llm/small", "create:resources:llm", status=403, body=far(llm()))
        assert with_key["error"]["type"] == "insufficient_scope"
        writer = "create:resources:llm/small"
        with_key = await api.ask("PUT", "/llm/small", writer, status=403, body=far(llm()))
        assert with_key["error"]["message"] == "this takes the grant run:resources:secret/keys"
        await api.ask("PUT", "/llm/small", writer, "run:resources:secret/keys", status=201, body=far(llm()))
        stdio = document("server", "git", command="uvx", args=["mcp-server-git"])
        code = await api.ask("PUT", "/server/git", "create:resources", status=403, body=stdio)
        assert code["error"]["message"] == "this takes the grant edit:code"
        await api.ask("PUT", "/server/git", "create:resources", "edit:code", status=201, body=stdio)
        other = await api.ask("PUT", "/llm/small", EVERYTHING, status=422, body=secret())
        assert other["error"]["field"] == "metadata.name"
        await api.ask("PUT", "/llm/small", EVERYTHING, status=422, body="kind: [")
        put = [line.removeprefix("resources/put ") for line in api.audited()]
        assert put == [
            "secret/keys ok",
            "llm/small denied",
            "llm/small denied",
            "llm/small ok",
            "server/git denied",
            "server/git ok",
            "llm/small error",
            "llm/small error",
        ]
        for body in ("[]", "{", {"files": 1}, {"files": [1]}, {"delete": [1]}, {"delete": ["wolf/x"]}):
            await api.ask("POST", "", EVERYTHING, status=400 if isinstance(body, str) else 422, body=body)
        assert api.audited()[len(put) :] == [
            "resources/apply nothing error",
            "resources/apply nothing error",
            "resources/delete nothing error",
            "resources/delete wolf/x error",
        ]
        await api.ask(
            "POST", "", EVERYTHING, status=422, body={"delete": ["llm/small, agent/deployer (dry run)"]}
        )
        assert api.audited()[-1] == "resources/delete 'llm/small, agent/deployer (dry run)' error"

    on_api(tmp_path, do)


def test_a_grant_for_names_deletes_nothing_by_uid(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        made = await api.ask("PUT", "/llm/open", EVERYTHING, status=201, body=open_llm())
        uid = made["metadata"]["uid"]
        by_pattern = f"delete:resources:llm/{uid[0]}*"
        for name in (uid, uid.upper()):
            refused = await api.ask("POST", "", by_pattern, status=422, body={"delete": [f"llm/{name}"]})
            assert refused["error"]["field"] == "delete[0]"
        await api.ask("DELETE", f"/llm/{uid}", by_pattern, status=404)
        assert names(await api.ask("GET", "/llms", EVERYTHING)) == ["open"]

    on_api(tmp_path, do)


def test_no_name_is_a_way_to_another_place_of_the_control_api(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        for name in ("%2e", "%2e%2e", "%00", "a%3fb", "%ed%a0%80", "a%20b"):
            for method in ("GET", "DELETE"):
                refused = await api.ask(method, f"/agent/{name}", EVERYTHING, status=404)
                assert refused["error"]["type"] == "not_found"
        for name in ("..", "\ud800", "", "x" * 5000):
            await api.ask("POST", "", EVERYTHING, status=422, body={"delete": [f"agent/{name}"]})

    on_api(tmp_path, do)


def test_values_of_variables_and_headers_are_for_who_may_change_them(tmp_path: Path) -> None:
    async def do(api: Api) -> None:
        remote = document("server", "search", url="http://127.0.0.1:9/mcp", headers={"X-Key": VALUE[:8]})
        child = document("server", "git", command="uvx", env={"KEY": VALUE[:8]})
        with_env = document("agent", "a", llm="open", run={"env": {"KEY": VALUE[:8]}, "idle_timeout": 60})
        files = [{"file": "a", "text": "\n---\n".join((open_llm(), remote, child, with_env))}]
        await api.ask("POST", "", EVERYTHING, body={"files": files})
        for path, grant in (
            ("/server/search", "resources:server/*"),
            ("/server/git", "resources:server/*"),
            ("/agent/a", "agents"),
        ):
            seen = await api.ask("GET", path, f"view:{grant}")
            assert VALUE[:8] not in json.dumps(seen)
            assert HIDDEN in json.dumps(seen)
            assert VALUE[:8] not in json.dumps(await api.ask("GET", path.rpartition("/")[0], f"view:{grant}"))
            assert VALUE[:8] in json.dumps(await api.ask("GET", path, f"view:{grant}", f"edit:{grant}"))
        assert seen["spec"]["run"] == {"env": {"KEY": HIDDEN}, "idle_timeout": 60}

    on_api(tmp_path, do)
