"""Every operation of the REST API, and of OpenAI's, tried by every kind of principal.

What each may do is written down here by hand. An operation that the table of the product has and this one has not makes
a test fail.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest

from pallas_gateway.http.openapi.operations.table import OPERATIONS
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, door, with_gateway
from support.supervisor.declared import document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.gateway.door import Door

PASSTHROUGH = "run:resources:llm/passthrough"
"""To give an agent the model that the tests give it."""
HUMANS: dict[str, tuple[str, ...]] = {
    "everything": ("*",),
    "views all": ("view:agents",),
    "views red": ("view:agents:red",),
    "runs all": ("run:agents",),
    "runs red": ("run:agents:red",),
    "runs and views red": ("run:agents:red", "view:agents:red"),
    "creates": ("create:agents", PASSTHROUGH),
    "edits red": ("edit:agents:red", "view:agents:red", PASSTHROUGH),
    "edits unseen red": ("edit:agents:red", PASSTHROUGH),
    "deletes": ("delete:agents",),
    "resources": ("view:resources", "edit:resources", "create:resources", "delete:resources", PASSTHROUGH),
    "project": ("view:projects:team",),
    "views threads": ("view:threads",),
    "views threads and runs": ("view:threads", "run:agents"),
    "views threads and agents": ("view:threads", "view:agents"),
    "views threads of red": ("view:threads:red", "run:agents", "view:agents"),
    "edits threads": ("view:threads", "edit:threads", "run:agents", "view:agents"),
    "deletes threads": ("view:threads", "delete:threads", "run:agents", "view:agents"),
    "nothing": ("view:knowledge",),
}
AGENT = "an agent that may run red"

KINDS = (*HUMANS, AGENT)


def grants(kind: str) -> set[str]:
    return set(HUMANS.get(kind, ("run:agents:red",)))


def may(kind: str, verb: str, agent: str) -> bool:
    return bool({"*", f"{verb}:agents", f"{verb}:agents:{agent}"} & grants(kind))


def some(kind: str, verb: str) -> bool:
    return may(kind, verb, "red") or may(kind, verb, "blue")


def declares(kind: str, verb: str, agent: str) -> bool:
    return may(kind, verb, agent) or f"{verb}:resources" in grants(kind)


def allowed(is_so: bool, otherwise: str = "denied") -> str:
    return "allowed" if is_so else otherwise


def running(kind: str, agent: str) -> str:
    """What takes `run` on an agent."""
    return allowed(may(kind, "run", agent), "denied" if may(kind, "view", agent) else "hidden")


def changing(verb: str) -> Callable[[str, str], str]:
    """What takes a verb on an agent as a resource."""

    def expected(kind: str, agent: str) -> str:
        if verb == "view":
            return allowed(declares(kind, "view", agent), "hidden")
        return allowed(declares(kind, verb, agent), "denied" if declares(kind, "view", agent) else "hidden")

    return expected


def others_thread(verb: str, on_agent: str) -> Callable[[str, str], str]:
    """What is done with a thread of somebody else."""

    def expected(kind: str, agent: str) -> str:
        def on_threads(word: str) -> bool:
            return bool({"*", f"{word}:threads", f"{word}:threads:{agent}"} & grants(kind))

        if not on_threads("view"):
            return "hidden"
        return allowed(on_threads(verb) and may(kind, on_agent, agent))

    return expected


def administration(kind: str, _: str) -> str:
    return allowed(kind == "everything")


class Tried(NamedTuple):
    """One operation: what is sent, and who may."""

    expected: Callable[[str, str], str]
    """Kind of principal and agent → `allowed`, `denied` or `hidden`."""
    body: Any = None


HELLO = {"message": "hello"}
SPEC = {"model": "passthrough"}
TABLE: dict[str, Tried] = {
    "listAgents": Tried(lambda kind, _: allowed(some(kind, "view"))),
    "createAgent": Tried(
        lambda kind, agent: allowed(declares(kind, "create", agent)), {"name": "{agent}", **SPEC}
    ),
    "getAgent": Tried(changing("view")),
    "updateAgent": Tried(changing("edit"), SPEC),
    "deleteAgent": Tried(changing("delete")),
    "listProjectAgents": Tried(lambda kind, _: allowed(kind in ("everything", "project"))),
    "chat": Tried(running, HELLO),
    "createThread": Tried(running, {}),
    "listAgentThreads": Tried(running),
    "importThread": Tried(running, {"kind": "thread", "format": 1}),
    "listThreads": Tried(lambda kind, _: allowed(some(kind, "run"))),
    "getThread": Tried(others_thread("view", "run")),
    "renameThread": Tried(others_thread("edit", "run"), {"title": "x"}),
    "listMessages": Tried(others_thread("view", "view")),
    "followTurn": Tried(others_thread("view", "run")),
    "stopTurn": Tried(others_thread("edit", "run")),
    "exportThread": Tried(others_thread("view", "view")),
    "deleteThread": Tried(others_thread("delete", "run")),
    "createChatCompletion": Tried(
        lambda kind, agent: allowed(may(kind, "run", agent), "hidden"),
        {"model": "{agent}", "messages": [{"role": "user", "content": "hello"}]},
    ),
    "listModels": Tried(lambda kind, _: allowed(some(kind, "run"))),
    "getModel": Tried(lambda kind, agent: allowed(may(kind, "run", agent), "hidden")),
    "applyResources": Tried(
        lambda kind, _: allowed(kind in ("everything", "resources")), {"delete": ["llm/nothing"]}
    ),
    "listResources": Tried(lambda kind, _: allowed(some(kind, "view") or kind == "resources")),
    "getResource": Tried(changing("view")),
    "putResource": Tried(
        lambda kind, agent: allowed(declares(kind, "create", agent) or declares(kind, "edit", agent)),
        {"apiVersion": "pallas/v1", "kind": "agent", "metadata": {"name": "{agent}"}, "spec": SPEC},
    ),
    "deleteResource": Tried(changing("delete")),
    "listTokens": Tried(administration),
    "createToken": Tried(administration, {}),
    "revokeToken": Tried(lambda kind, _: "hidden" if kind == "everything" else "denied"),
    "rotateToken": Tried(lambda kind, _: "hidden" if kind == "everything" else "denied", {}),
    "readAudit": Tried(administration),
    "getOpenApi": Tried(lambda _, __: "allowed"),
}
"""Operation → what is sent, to agents of agents.yaml, which cannot be changed: 409 is for who may."""


class Deployed(NamedTuple):
    """The deployment, and a token of every kind of principal."""

    owner: Door
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    deployment = make_deployment(tmp_path_factory.mktemp("rights") / "fleet", "red", "blue")
    limits = {"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000}
    with_gateway(deployment, limits=limits)
    with Fleet(deployment) as fleet:
        fleet.wait()
        await_gateway(fleet)
        files = [{"file": "team.yaml", "text": document("project", "team")}]
        assert fleet.post("/v1/resources", files=files).status_code == 200
        owner = door(fleet)
        asked: dict[str, dict[str, Any]] = {
            kind: {"role": "human", "grants": list(each)} for kind, each in HUMANS.items()
        }
        asked[AGENT] = {"role": "agent", "agent": "blue", "grants": ["run:agents:red"]}
        made = {
            kind: owner.rest("POST", "/tokens", json={"name": kind, **fields})
            for kind, fields in asked.items()
        }
        yield Deployed(owner, {kind: answer.json()["token"] for kind, answer in made.items()})


def test_the_table_has_all_that_the_product_has() -> None:
    assert set(TABLE) == {each.id for each in OPERATIONS}


@pytest.mark.parametrize("kind", KINDS)
def test_each_does_what_it_may(deployed: Deployed, kind: str) -> None:
    operations = {each.id: each for each in OPERATIONS}
    wrong: list[tuple[str, ...]] = []
    with httpx.Client(base_url=deployed.owner.url, trust_env=False, timeout=60) as client:
        for agent in ("red", "blue"):
            made = deployed.owner.rest("POST", f"/agents/{agent}/threads", json={}).json()["id"]
            for name, tried in TABLE.items():
                operation = operations[name]
                places = {"agent": agent, "model": agent, "name": agent, "kind": "agent", "thread": made}
                path = operation.path.format(**{"project": "team", "token": "tok_none", **places})
                body = None if tried.body is None else json.dumps(tried.body).replace("{agent}", agent)
                headers = {
                    "Authorization": f"Bearer {deployed.tokens[kind]}",
                    "Content-Type": "application/json",
                }
                seen = outcome(client.request(operation.method, path, content=body, headers=headers))
                if seen != (expected := tried.expected(kind, agent)):
                    wrong.append((name, agent, seen, expected))
    assert not wrong


def test_nobody_gets_nothing(deployed: Deployed) -> None:
    places = dict.fromkeys(("agent", "model", "name", "kind", "thread", "project", "token"), "red")
    for operation in OPERATIONS:
        answer = httpx.request(operation.method, deployed.owner.url + operation.path.format(**places))
        assert answer.status_code == 401, operation.id
        assert "resource_metadata=" in answer.headers["www-authenticate"]


def outcome(answer: httpx.Response) -> str:
    """`denied` names the grant that it would take; `hidden` does not tell the thing from one that is not there."""
    if answer.status_code == 403:
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"], answer.text
        return "denied"
    if answer.status_code == 404:
        return "hidden"
    assert answer.status_code < 500, answer.text
    return "allowed"
