"""Agents of a real deployment managed by MCP alone: listed, made, asked, changed, restarted, deleted, in both eras."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import ERAS, await_gateway, door, make_token, with_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.gateway.door import Answer, Era

SPEC = {"description": "Says it again", "model": "passthrough"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A deployment with one agent of agents.yaml, and a gateway."""
    deployment = make_deployment(tmp_path_factory.mktemp("management") / "deployment", "echo")
    with Fleet(with_gateway(deployment)) as running:
        running.wait(until="settled")
        await_gateway(running)
        yield running


def structured(answer: Answer) -> dict[str, Any]:
    """What a tool answers; it has to have succeeded."""
    found: dict[str, Any] = answer.result["structuredContent"]
    assert not answer.result.get("isError"), found
    return found


@pytest.mark.parametrize("era", ERAS)
def test_an_agent_lives_by_mcp_alone(fleet: Fleet, era: Era) -> None:
    human = door(fleet, era=era)
    assert "ask_agent" in human.names("tools")
    assert [each["name"] for each in structured(human.tool("agents_list"))["agents"]] == ["echo"]
    made = structured(human.tool("agents_create", name="parrot", spec=SPEC))["agent"]
    assert (made["state"], made["source"]) == ("idle", "resource")
    asked = structured(human.tool("ask_agent", name="parrot", prompt="Good morning"))
    assert asked["response"] == {"answer": "Good morning"}, "it was woken"
    assert json.loads(human.read("resource://agents/parrot/state").text)["state"] == "running"
    spec = {**SPEC, "description": "Says it once more"}
    changed = structured(human.tool("agents_update", name="parrot", spec=spec))["agent"]
    assert (changed["description"], changed["version"]) == ("Says it once more", 2)
    restarted = structured(human.tool("agents_restart", name="parrot"))["agents"][0]
    assert restarted["generation"] >= 2
    assert structured(human.tool("ask_agent", agent_uri=made["uri"], prompt="Again"))["response"]
    snapshot = json.loads(human.read("resource://agents/parrot/snapshot").text)
    assert snapshot["model"] == "fast-agent.passthrough"
    assert structured(human.tool("agents_delete", name="parrot"))["deleted"] == "parrot"
    assert [each["name"] for each in json.loads(human.read("resource://agents/list").text)] == ["echo"]
    assert human.tool("ask_agent", name="parrot", prompt="?").code == -32953


def test_an_agent_of_agents_yaml_is_stopped_started_and_asked(fleet: Fleet) -> None:
    human = door(fleet)
    structured(human.tool("agents_stop", name="echo"))
    assert json.loads(human.read("resource://agents/echo/state").text)["state"] == "suspended"
    structured(human.tool("agents_start", name="echo"))
    asked = structured(human.tool("ask_agent", name="echo", prompt="Here?"))
    assert (asked["response"], asked["model"]) == ({"answer": "Here?"}, "fast-agent.passthrough")


def test_rights_count_in_mcp_and_rest(fleet: Fleet) -> None:
    viewer = door(fleet, make_token(fleet, "viewer", "view:agents:echo"))
    assert viewer.names("tools") == ["agents_list"]
    refused = viewer.tool("agents_delete", name="echo")
    assert refused.status == 403
    assert 'scope="delete:agents"' in refused.headers["www-authenticate"]
    assert viewer.rest("GET", "/resources/agent/echo").json()["metadata"]["name"] == "echo"
    assert viewer.rest("GET", "/resources/llm").status_code == 403
    human = door(fleet, make_token(fleet, "editor", "*"))
    body = {"apiVersion": "pallas/v1", "kind": "agent", "metadata": {"name": "rested"}, "spec": SPEC}
    assert human.rest("PUT", "/resources/agent/rested", json=body).status_code == 201
    assert human.rest("GET", "/resources/agent/rested").json()["metadata"]["owner"] == "editor"
    assert viewer.rest("GET", "/resources/agent/rested").status_code == 404
    assert human.rest("DELETE", "/resources/agent/rested").status_code == 200
