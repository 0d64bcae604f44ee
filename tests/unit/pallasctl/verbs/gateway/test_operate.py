"""`pallasctl gateway start`, `stop`, `restart` and `status`: what is asked, what is said, the exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fakes.control_server import NOW, agent, status

if TYPE_CHECKING:
    from fakes.control_server import FakeControl


def gateway(state: str = "ready", **fields: Any) -> dict[str, Any]:
    """Its entry of a status document."""
    entry = agent("gateway", state, **fields)
    of_agents = ("name", "depends_on")
    return {
        **{name: value for name, value in entry.items() if name not in of_agents},
        "port": 24199,
        "bind": "127.0.0.1",
        "url": "http://127.0.0.1:24199",
        "public_url": "https://agents.example",
        "workers": "open",
        **fields,
    }


@pytest.mark.parametrize(("verb", "state"), [("start", "ready"), ("stop", "stopped"), ("restart", "ready")])
def test_done(fake: FakeControl, verb: str, state: str) -> None:
    fake.answer(f"/v1/gateway/{verb}", {"done": True, "gateway": gateway(state)})
    result = fake.run("gateway", verb, "--timeout", "5")
    process = " (pid 4007)" if state == "ready" else ""
    assert result.stdout == f"gateway: {state}{process} at https://agents.example\n"
    assert (result.stderr, result.exit_code) == ("", 0)
    assert fake.requests == [("POST", f"/v1/gateway/{verb}", {"wait": True, "timeout": 5.0})]


def test_wait_and_describe_know_it_by_its_name(fake: FakeControl) -> None:
    fake.answer("/v1/status", {**status(agent("jarvis")), "gateway": gateway()})
    unknown = {"error": "there is no agent 'gateway'; the agents are: jarvis", "unknown": ["gateway"]}
    fake.answer("/v1/wait", unknown, 404)
    fake.answer("/v1/gateway/wait", {"done": True, "gateway": gateway()})
    result = fake.run("wait", "gateway", "--for", "ready", "--timeout", "5")
    assert (result.stdout, result.stderr) == ("gateway: ready (pid 4007) at https://agents.example\n", "")
    path, body = fake.requests[-1][1:]
    assert body.pop("timeout") == pytest.approx(5, abs=5)
    assert (path, body) == ("/v1/gateway/wait", {"wait": True, "for": "ready"})
    fake.answer("/v1/agents/gateway", unknown, 404)
    fake.answer("/v1/resources/agent/gateway", unknown, 404)
    described = fake.run("describe", "gateway")
    assert described.stdout.splitlines() == fake.run("gateway", "status").stdout.splitlines()
    assert json.loads(fake.run("describe", "gateway", "-o", "json").stdout) == gateway()


def test_without_a_gateway_nobody_has_the_name(fake: FakeControl) -> None:
    fake.answer("/v1/status", {**status(agent("jarvis")), "gateway": None})
    fake.answer("/v1/wait", {"error": "there is no agent 'gateway'; the agents are: jarvis"}, 404)
    result = fake.run("wait", "jarvis", "gateway")
    assert (result.exit_code, "there is no agent 'gateway'" in result.stderr) == (2, True)


def test_verbs_of_agents_say_that_it_is_none(fake: FakeControl) -> None:
    fake.answer("/v1/restart", {"error": "there is no agent 'gateway'; the agents are: jarvis"}, 404)
    result = fake.run("restart", "gateway")
    assert result.exit_code == 2
    assert "the gateway is no agent: `pallasctl gateway restart`" in result.stderr


def test_restart_at_once_without_waiting(fake: FakeControl) -> None:
    fake.answer("/v1/gateway/restart", {"done": False, "gateway": gateway("starting")})
    result = fake.run("gateway", "restart", "--now", "--no-wait")
    assert (result.stdout, result.exit_code) == (
        "gateway: starting (pid 4007) at https://agents.example\n",
        0,
    )
    assert fake.requests[0][2] == {"wait": False, "timeout": 90.0, "now": True}


@pytest.mark.parametrize(
    ("code", "answer", "message"),
    [
        (200, {"done": False}, "not ready: `pallasctl logs gateway` says more"),
        (504, {"done": False, "error": "not ready within 5 s"}, "not ready within 5 s"),
    ],
)
def test_a_goal_that_is_not_reached(
    fake: FakeControl, code: int, answer: dict[str, Any], message: str
) -> None:
    broken = gateway("failed", message="the store is of a newer version")
    fake.answer("/v1/gateway/start", {**answer, "gateway": broken}, code)
    result = fake.run("gateway", "start", "--timeout", "5")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"pallasctl: {message}",
        "  gateway: failed at https://agents.example: the store is of a newer version",
    ]


def test_there_is_none(fake: FakeControl) -> None:
    fake.answer("/v1/gateway/start", {"error": "this deployment has no gateway"}, 409)
    result = fake.run("gateway", "start")
    assert (result.exit_code, result.stderr) == (1, "pallasctl: this deployment has no gateway\n")
    fake.answer("/v1/status", {**status(), "gateway": None})
    result = fake.run("gateway", "status")
    assert result.exit_code == 1
    assert "this deployment has no gateway; `gateway: {}` in agents.yaml" in result.stderr


def test_status(fake: FakeControl) -> None:
    entry = gateway(workers="behind", generation=5, restarts=4)
    fake.answer("/v1/status", {**status(), "gateway": entry})
    result = fake.run("gateway", "status")
    assert result.exit_code == 0
    first, *rest = result.stdout.splitlines()
    assert first == "gateway: ready (pid 4007) at https://agents.example"
    said = {name: value for name, _, value in (line.strip().partition(":") for line in rest)}
    assert {name: said[name].strip() for name in ("health", "listens", "agents", "memory", "starts")} == {
        "health": "ok",
        "listens": "127.0.0.1 port 24199",
        "agents": "behind it",
        "memory": "100M",
        "starts": "5 (4 restarts)",
    }
    assert "for" in said


@pytest.mark.parametrize(("state", "code"), [("ready", 0), ("backoff", 3)])
def test_status_for_programs(fake: FakeControl, state: str, code: int) -> None:
    entry = gateway(state)
    fake.answer("/v1/status", {**status(), "gateway": entry})
    result = fake.run("gateway", "status", "-o", "json")
    assert result.exit_code == code
    assert json.loads(result.stdout) == entry


def test_the_status_of_all_has_the_gateway_beside_the_agents(fake: FakeControl) -> None:
    down = gateway("backoff", message="exit status 70; restarting in 2 s", since=NOW)
    fake.answer("/v1/status", {**status(agent("jarvis")), "gateway": down})
    result = fake.run("status")
    assert result.exit_code == 3
    assert result.stdout.splitlines()[-1] == (
        "gateway: backoff at https://agents.example: exit status 70; restarting in 2 s"
    )
    document = json.loads(fake.run("status", "-o", "json").stdout)
    assert document["gateway"]["state"] == "backoff"
    named = fake.run("status", "jarvis")
    assert named.exit_code == 0
    assert "gateway" not in named.stdout
