"""Every tool, resource, template, completion and subscription, tried by every kind of principal.

What each may do is written down here by hand, and compared with what the gateway lists and does. What the product
has and this table has not makes a test fail.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from fakes.downstream import run_downstream
from pallas_gateway.servers.management.completion import COMPLETIONS
from pallas_gateway.servers.management.resources import RESOURCES, TEMPLATES
from pallas_gateway.servers.management.tools import TOOLS
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import ERAS, Answer, Door, Era, await_gateway, door, make_token, with_gateway
from support.gateway.mcp.subscriber import Subscriber
from support.supervisor.declared import document

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENTS = ("red", "blue")

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
    "project": ("view:projects:team", "run:projects:team"),
    "nothing": ("view:knowledge",),
}
"""Kind of human → its grants."""

MAY: dict[str, dict[str, frozenset[str]]] = {
    verb: {
        agent: frozenset(
            name
            for name, grants in HUMANS.items()
            if {"*", f"{verb}:agents", f"{verb}:agents:{agent}"} & set(grants)
        )
        for agent in AGENTS
    }
    for verb in ("view", "run", "edit", "delete", "create")
}
"""Verb → agent → who may do that with it, by the grants for agents."""
for _verb in ("edit", "delete", "create"):
    for _agent in AGENTS:
        MAY[_verb][_agent] |= {"resources"}  # an agent is a resource, too

VERBS = {
    "agents_list": "view",
    "agents_create": "create",
    "agents_update": "edit",
    "agents_delete": "delete",
    "agents_start": "edit",
    "agents_stop": "edit",
    "agents_restart": "edit",
    "ask_agent": "run",
    "create_agent": "create",
}
"""Tool of the management server → what it takes on an agent."""

CALLS: dict[str, dict[str, object]] = {
    "agents_update": {"name": "{agent}", "spec": {"model": "passthrough"}},
    "agents_delete": {"name": "{agent}"},
    "agents_start": {"name": "{agent}"},
    "agents_stop": {"name": "{agent}", "cascade": "no"},
    "agents_restart": {"name": "{agent}", "now": "no"},
    "ask_agent": {"name": "{agent}", "prompt": "hello"},
}
"""Tool of one agent → arguments. Those of agents.yaml cannot be changed or deleted; wrong ones come to nothing."""

OF_ALL = {
    "resource://agents/list",
    "resource://presets/list",
    "resource://container.info",
    "system-agents://list",
    "my-agents://list",
}
OF_AGENT = {
    "resource://agents/{agent_id}/info": "resource://agents/%s/info",
    "resource://agents/{agent_id}/state": "resource://agents/%s/state",
    "resource://agents/{agent_id}/snapshot": "resource://agents/%s/snapshot",
    "resource://agents/{agent_id}/ui/state": "resource://agents/%s/ui/state",
    "resource://compositor_meta/state/{server}{?agent}": "resource://compositor_meta/state/tools?agent=%s",
    "agentlet://{uri}": "agentlet://%s",
}
"""Template → the URI of an agent."""
COMPLETED = {
    ("resource://agents/{agent_id}/info", "agent_id"),
    ("resource://agents/{agent_id}/state", "agent_id"),
    ("resource://agents/{agent_id}/snapshot", "agent_id"),
    ("resource://agents/{agent_id}/ui/state", "agent_id"),
    ("resource://compositor_meta/state/{server}{?agent}", "agent"),
    ("resource://compositor_meta/state/{server}{?agent}", "server"),
    ("agentlet://{uri}", "uri"),
}

OWN = ("resource://agents/%s/session/state", "resource://agents/%s/mcp/state")
"""What is an agent's own, and nobody else's."""
OWN_THREADS = "resource://agents/%s/ui/state"
"""Whoever reads it, it has the reader's own threads alone: an agent of those with others."""
OWN_SERVER = "resource://compositor_meta/state/tools"
OWN_TEMPLATE = "resource://compositor_meta/state/{server}"


class Deployed(NamedTuple):
    """The deployment, and a token of every kind of principal."""

    fleet: Fleet
    humans: dict[str, str]
    agents: dict[str, str]

    def human(self, kind: str, era: Era = "stateless", path: str = "/mcp") -> Door:
        return door(self.fleet, self.humans[kind], era, path)

    def agent(self, name: str, era: Era = "stateless", path: str = "/mcp") -> Door:
        return door(self.fleet, self.agents[name], era, path)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """Red has a server and may run nobody; blue may run red; the project has both in it by name."""
    deployment = make_deployment(tmp_path_factory.mktemp("f") / "fleet")
    with run_downstream() as tools:
        deployment.servers = {"tools": {"transport": "http", "url": tools.url}}
        deployment.add("red", servers=("tools",))
        deployment.add("blue", servers=("tools",), depends_on=["red"])
        limits = {"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000}
        with_gateway(deployment, limits={**limits, "subscriptions_per_minute": 100_000})
        with Fleet(deployment) as fleet:
            fleet.wait()
            await_gateway(fleet)
            applied = fleet.post(
                "/v1/resources", files=[{"file": "team.yaml", "text": document("project", "team")}]
            )
            assert applied.status_code == 200, applied.text
            humans = {kind: make_token(fleet, kind, *grants) for kind, grants in HUMANS.items()}
            agents = {
                "red": make_token(fleet, "red's", agent="red"),
                "blue": make_token(fleet, "blue's", "run:agents:red", agent="blue"),
            }
            yield Deployed(fleet, humans, agents)


def test_the_table_has_all_that_the_product_has() -> None:
    assert set(VERBS) == {tool.name for tool in TOOLS}
    assert set(OF_ALL) == {resource.uri for resource in RESOURCES}
    assert set(OF_AGENT) == {template.uri for template in TEMPLATES}
    assert {(uri, name) for uri, names in COMPLETIONS.items() for name in names} == COMPLETED


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("kind", HUMANS)
def test_a_human_is_listed_what_it_may_use(deployed: Deployed, kind: str, era: Era) -> None:
    caller = deployed.human(kind, era)
    usable = {name for name, verb in VERBS.items() if kind in MAY[verb]["red"] | MAY[verb]["blue"]}
    assert set(caller.names("tools")) == usable
    if kind in MAY["view"]["red"]:
        assert set(caller.names("resources")) == OF_ALL
        assert set(caller.names("resourceTemplates")) == set(OF_AGENT)
        seen = {agent["name"] for agent in json.loads(caller.read("resource://agents/list").text)}
        assert seen == {agent for agent in AGENTS if kind in MAY["view"][agent]}
    else:
        assert caller.ask("resources/list").status == 403
        assert caller.ask("resources/templates/list").status == 403


@pytest.mark.parametrize("kind", HUMANS)
def test_a_human_calls_what_it_may_call(deployed: Deployed, kind: str) -> None:
    caller = deployed.human(kind)
    wrong: list[tuple[str, ...]] = []
    for tool, arguments in CALLS.items():
        verb = VERBS[tool]
        for agent in AGENTS:
            given = {key: agent if value == "{agent}" else value for key, value in arguments.items()}
            seen = outcome(caller.tool(tool, **given))
            if kind in MAY[verb][agent]:
                expected = {"allowed"}
            elif kind not in MAY[verb]["red"] | MAY[verb]["blue"]:
                expected = {"denied"}
            elif kind in MAY["view"][agent]:
                expected = {"denied", "allowed" if "no" in given.values() else "denied"}
            else:
                expected = {"hidden", "allowed" if "no" in given.values() else "hidden"}
            if seen not in expected:
                wrong.append((tool, agent, seen, *sorted(expected)))
    creating = outcome(caller.tool("agents_create", name="red", spec={"model": "passthrough"}))
    if creating != ("allowed" if kind in MAY["create"]["red"] else "denied"):
        wrong.append(("agents_create", "red", creating))
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    asked = {"agent_name": "red", "description": "You help.", "output_schema": schema}
    creating = outcome(caller.tool("create_agent", **asked))
    if creating != ("allowed" if kind in MAY["create"]["red"] else "denied"):
        wrong.append(("create_agent", "red", creating))
    listing = outcome(caller.tool("agents_list"))
    if listing != ("allowed" if kind in MAY["view"]["red"] else "denied"):
        wrong.append(("agents_list", "", listing))
    assert not wrong


@pytest.mark.parametrize("kind", HUMANS)
def test_a_human_reads_completes_and_hears_of_what_it_may_view(deployed: Deployed, kind: str) -> None:
    caller = deployed.human(kind)
    visible = {agent for agent in AGENTS if kind in MAY["view"][agent]}
    readable = set(OF_ALL) if visible else set()
    every = set(OF_ALL)
    wrong: list[tuple[str, ...]] = []
    for uri in OF_ALL:
        seen = outcome(caller.read(uri))
        if seen != ("allowed" if visible else "denied"):
            wrong.append((uri, seen))
    for template, pattern in OF_AGENT.items():
        for agent in AGENTS:
            uri = pattern % agent
            every.add(uri)
            seen = outcome(caller.read(uri))
            expected = "allowed" if agent in visible else "hidden" if visible else "denied"
            readable |= {uri} if agent in visible else set()
            if seen != expected:
                wrong.append((uri, seen))
        for other in OWN:
            seen = outcome(caller.read(other % "red"))
            if seen == "allowed":
                wrong.append((other, seen))
        for name in COMPLETIONS[template]:
            answer = caller.ask(
                "completion/complete",
                ref={"type": "ref/resource", "uri": template},
                argument={"name": name, "value": ""},
                context={"arguments": {"agent": "blue"}},
            )
            values = set(answer.message.get("result", {}).get("completion", {}).get("values", []))
            allowed = ({"tools"} if "blue" in visible else set()) if name == "server" else visible
            if values != allowed:
                wrong.append((template, name, *sorted(values)))
    assert not wrong
    for era in ERAS:
        assert asyncio.run(honoured(deployed.fleet, deployed.humans[kind], era, every)) == readable


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_has_its_compositor_and_nothing_of_others(deployed: Deployed, name: str, era: Era) -> None:
    caller = deployed.agent(name, era)
    deployed.fleet.await_that(lambda: "tools__echo" in caller.names("tools"), "the server is there")
    listed = set(caller.names("tools"))
    assert {tool for tool in listed if not tool.startswith("tools__")} == (
        {"agent-red__chat"} if name == "blue" else set()
    )
    assert outcome(caller.tool("tools__echo", text="x")) == "allowed"
    reaching = outcome(caller.tool("agent-red__chat", message="x"))
    assert reaching == ("allowed" if name == "blue" else "hidden")
    for tool in VERBS:
        assert outcome(caller.tool(tool, name="red", prompt="x", spec={})) in ("hidden", "denied")
    mine = {pattern % name for pattern in (*OWN, OWN_THREADS)} | {OWN_SERVER}
    others = {pattern % other for pattern in OWN for other in AGENTS if other != name}
    others |= OF_ALL | {pattern % agent for pattern in OF_AGENT.values() for agent in AGENTS}
    assert {uri for uri in caller.names("resources") if uri.startswith("resource://")} == mine
    assert caller.names("resourceTemplates") == [OWN_TEMPLATE]
    completed = caller.ask(
        "completion/complete",
        ref={"type": "ref/resource", "uri": OWN_TEMPLATE},
        argument={"name": "server", "value": "t"},
    )
    assert completed.result["completion"]["values"] == ["tools"]
    assert {uri for uri in mine if outcome(caller.read(uri)) == "allowed"} == mine
    assert not {uri for uri in others - mine if outcome(caller.read(uri)) == "allowed"}
    heard = asyncio.run(honoured(deployed.fleet, deployed.agents[name], era, mine | others))
    assert heard == mine
    for method, path in (("GET", "/resources/agent"), ("GET", "/tokens"), ("GET", "/audit")):
        assert caller.rest(method, path).status_code in (403, 404), path


@pytest.mark.parametrize("kind", [*HUMANS, *(f"agent {name}" for name in AGENTS)])
def test_virtual_and_project_servers_are_there_for_those_who_may(deployed: Deployed, kind: str) -> None:
    is_agent = kind.startswith("agent ")
    token = deployed.agents[kind[6:]] if is_agent else deployed.humans[kind]
    for agent in AGENTS:
        caller = door(deployed.fleet, token, path=f"/mcp/agents/{agent}")
        may_run = (kind == "agent blue" and agent == "red") if is_agent else kind in MAY["run"][agent]
        if may_run:
            assert caller.names("tools") == ["chat"]
            assert "hello" in caller.tool("chat", message="hello").text
        else:
            assert caller.ask("tools/list").status in (403, 404)
            assert caller.tool("chat", message="hello").status in (403, 404)
    project = door(deployed.fleet, token, path="/mcp/projects/team").ask("tools/list")
    assert (project.status == 200) == (kind in ("everything", "project"))


@pytest.mark.parametrize("era", ERAS)
def test_nobody_gets_nothing(deployed: Deployed, era: Era) -> None:
    for path in ("/mcp", "/mcp/agents/red", "/mcp/projects/team"):
        caller = Door(deployed.human("nothing").url, None, era, path)
        answer = caller.ask("initialize" if era == "sessions" else "tools/list")
        assert answer.status == 401
        assert "resource_metadata=" in answer.headers["www-authenticate"]


def outcome(answer: Answer) -> str:
    """`denied` names the grant that it would take; `hidden` does not tell the thing from one that is not there."""
    if answer.status == 403:
        assert "insufficient_scope" in answer.headers["www-authenticate"], answer
        return "denied"
    if answer.status == 404 or answer.code in (-32601, -32602, -32953):
        return "hidden"
    assert answer.status == 200, answer
    return "allowed"


async def honoured(fleet: Fleet, token: str, era: Era, uris: set[str]) -> set[str]:
    """The resources that the principal may subscribe to."""
    port = fleet.deployment.document["gateway"]["port"]
    async with Subscriber(port, token, sorted(uris), era) as subscriber:
        return set(subscriber.honoured)
