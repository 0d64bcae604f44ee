"""Projects, servers behind TLS and agents without a port, through the gateway of a real deployment."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fakes.downstream import run_downstream
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import ERAS, Door, Era, await_gateway, door, make_token, with_gateway
from support.gateway.mcp.subscriber import Subscriber
from support.gateway.tls import Authority, tls_before
from support.supervisor.declared import document

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = "/mcp/projects/team"


class Deployed(NamedTuple):
    """The deployment, and tokens."""

    fleet: Fleet
    everything: str
    member: str
    """Of one who may run the project and one of its agents."""
    viewer: str
    secured: str
    """Of the agent whose servers have TLS."""

    def door(self, token: str, path: str = "/mcp", era: Era = "stateless") -> Door:
        return door(self.fleet, token, era, path)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """Agents' ports are not at 127.0.0.1, the gateway's is; project and agents are declared."""
    directory = tmp_path_factory.mktemp("f")
    authority = Authority(directory)
    deployment = make_deployment(directory / "fleet", bind="127.0.0.2")
    with (
        run_downstream(greeting=True) as tools,
        tls_before(tools.port, authority.server("good")) as good,
        tls_before(tools.port, authority.server("bad", itself=True)) as bad,
    ):
        deployment.servers = {
            "good": {"transport": "http", "url": f"https://localhost:{good}/mcp"},
            "other": {"transport": "http", "url": f"https://127.0.0.1:{good}/mcp"},
            "bad": {"transport": "http", "url": f"https://localhost:{bad}/mcp"},
        }
        deployment.add("echo")
        deployment.add("secured", servers=("good", "other", "bad"))
        limits = {"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000}
        with_gateway(deployment, bind="127.0.0.1", limits=limits)
        resources = [
            document("server", "tools", url=tools.url),
            document(
                "project",
                "team",
                servers=["tools"],
                prompts=[{"name": "tone", "description": "How to write", "text": "Be brief."}],
            ),
            document("agent", "member", description="One of us", model="passthrough", project="team"),
            document("agent", "other", description="Another", model="passthrough", project="team"),
        ]
        with Fleet(deployment, env={"SSL_CERT_FILE": str(authority.file)}) as fleet:
            await_gateway(fleet)
            files = [{"file": "team.yaml", "text": "\n---\n".join(resources)}]
            applied = fleet.post("/v1/resources", files=files)
            assert applied.status_code == 200, applied.text
            member = ("view:projects:team", "run:projects:team", "run:agents:member")
            everything = make_token(fleet, "everything", "*")
            there = door(fleet, everything, path=PROJECT)
            fleet.await_that(lambda: there.ask("tools/list").status == 200, "the gateway knows the project")
            yield Deployed(
                fleet,
                everything,
                make_token(fleet, "member", *member),
                make_token(fleet, "viewer", "view:projects:team"),
                make_token(fleet, "secured", agent="secured"),
            )


@pytest.mark.parametrize(("era", "who"), [("sessions", "ada"), ("stateless", "alan")])
def test_a_subscriber_hears_of_a_resource_of_a_server(deployed: Deployed, era: Era, who: str) -> None:
    async def main() -> None:
        secured, uri = deployed.door(deployed.secured), f"people://{who}"
        port = deployed.fleet.deployment.document["gateway"]["port"]
        async with Subscriber(port, deployed.secured, [uri, "no://one"], era) as one:
            assert one.honoured == [uri]
            await one.until(uri)  # the gateway hears of it from now on
            assert (await asyncio.to_thread(secured.tool, "good__rename", who=who)).text == "renamed"
            await one.until(uri, 2)

    asyncio.run(main())


def words(answer: Any) -> str:
    return "\n".join(message["content"]["text"] for message in answer.result["messages"])


@pytest.mark.parametrize("era", ERAS)
def test_a_project_has_its_servers_prompts_and_the_agents_that_one_may_run(
    deployed: Deployed, era: Era
) -> None:
    member = deployed.door(deployed.member, PROJECT, era)
    names = member.names("tools")
    assert {"tools__echo", "tools__add", "agent-member__chat"} <= set(names)
    assert "agent-other__chat" not in names
    assert member.tool("tools__echo", text="hi").text == "hi"
    assert member.tool("agent-member__chat", message="good morning").text == "good morning"
    assert member.tool("agent-other__chat", message="x").code == -32602
    assert member.names("prompts") == ["tone", "tools__greet"]
    assert words(member.ask("prompts/get", name="tone")) == "Be brief."
    assert "agent-other__chat" in deployed.door(deployed.everything, PROJECT, era).names("tools")


def test_who_may_only_see_a_project_uses_nothing_of_it(deployed: Deployed) -> None:
    assert "tools__echo" in deployed.door(deployed.member, PROJECT).names("tools")
    viewer = deployed.door(deployed.viewer, PROJECT)
    assert viewer.names("tools") == []
    assert viewer.names("prompts") == ["tone"]
    assert viewer.tool("tools__echo", text="hi").code == -32602
    assert deployed.door(deployed.member, "/mcp/projects/none").ask("tools/list").status == 404
    assert deployed.door(deployed.secured, PROJECT).ask("tools/list").status == 404


def test_a_certificate_counts_if_its_authority_is_known_and_it_is_for_that_name(deployed: Deployed) -> None:
    secured = deployed.door(deployed.secured)

    def states() -> dict[str, Any]:
        records = json.loads(secured.read("resource://agents/secured/mcp/state").text)
        return {record["name"]: record for record in records}

    def is_known() -> bool:
        return all(record["state"] != "initializing" for record in states().values())

    deployed.fleet.await_that(is_known, "the servers are known")
    assert {name.partition("__")[0] for name in secured.names("tools")} == {"good"}
    assert secured.tool("good__echo", text="hi").text == "hi"
    records = states()
    assert records["bad"]["state"] == records["other"]["state"] == "failed"
    assert "self-signed certificate" in records["bad"]["error"]
    assert "not valid for '127.0.0.1'" in records["other"]["error"]
    refused = secured.tool("bad__echo", text="hi")
    assert "self-signed certificate" in refused.message["error"]["message"]


@pytest.mark.parametrize("name", ["member", "echo"])
def test_an_agent_is_asked_at_its_unix_socket_or_the_address_of_its_port(
    deployed: Deployed, name: str
) -> None:
    deployed.fleet.wait(name)
    status = deployed.fleet.agent(name)
    assert (status["port"] is None) == (name == "member")
    chat = deployed.door(deployed.everything, f"/mcp/agents/{name}")
    assert chat.tool("chat", message="good morning").text == "good morning"
    asked = deployed.door(deployed.everything).tool("ask_agent", name=name, prompt="hello")
    assert asked.result["structuredContent"]["response"] == {"answer": "hello"}
