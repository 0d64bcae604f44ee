"""Agents that start on demand, with real processes: idle, woken by a call, idle again, and whatever comes between."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import PATIENCE, Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "send_message", "arguments": {"message": "there?"}},
}
HEADERS = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One supervisor for all; each test has agents of its own."""
    deployment = make_deployment(tmp_path_factory.mktemp("on_demand") / "fleet")
    for name, idle_timeout in (
        ("one", 0.3),
        ("racing", 0.1),
        ("killed", 0.5),
        ("counting", 60.0),
        ("operated", 60.0),
        ("moved", 60.0),
    ):
        deployment.add(name, start="on-demand", idle_timeout=idle_timeout)
    deployment.add("above", depends_on=["one"])
    deployment.add("broken", "exits_at_import", start="on-demand", max_failures=1)
    with Fleet(deployment) as fleet:
        fleet.wait()
        yield fleet


def call(fleet: Fleet, name: str, client: httpx.Client | None = None) -> None:
    """Call the agent, on a connection of its own if not with a client that keeps its own; the answer has to be good."""
    post = httpx.post if client is None else client.post
    answer = post(fleet.deployment.url(name), json=CALL, headers=HEADERS, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    assert "there?" in answer.text


def until(fleet: Fleet, name: str, state: str) -> dict[str, Any]:
    """The agent's status, as soon as it is in this state."""
    found: list[dict[str, Any]] = []

    def there() -> bool:
        found.append(fleet.agent(name))
        return bool(found[-1]["state"] == state)

    fleet.await_that(there, f"{name} is {state}")
    return found[-1]


def test_the_first_call_starts_it_and_without_calls_it_ends(fleet: Fleet) -> None:
    assert fleet.agent("above")["state"] == "ready", "it does not wait for what it can call at any time"
    idle = fleet.agent("one")
    assert (idle["state"], idle["desired"], idle["pid"]) == ("idle", "up", None)
    assert fleet.ctl("wait", "one").returncode == 0
    call(fleet, "one")
    ended = until(fleet, "one", "idle")
    assert (ended["generation"], ended["restarts"], ended["failures"]) == (1, 0, 0)
    call(fleet, "one")
    assert fleet.agent("one")["generation"] == 2
    told = [record["message"] for record in fleet.transitions("one") if record["level"] == "INFO"]
    assert "one: idle -> waiting (a connection waits)" in told
    assert "one: ready -> stopping (no call for 0.3 s)" in told
    assert fleet.agent("above")["generation"] == 1, "that the other one wakes and goes idle is no loss"


def test_no_call_is_lost_between_the_end_of_a_worker_and_the_next(fleet: Fleet) -> None:
    """Calls at any moment around the end of a worker, on new connections and on kept ones."""
    draw = random.Random(7)
    for _ in range(20):
        call(fleet, "racing")
        time.sleep(draw.uniform(0.05, 0.2))  # what the test is about: calls at any time
    with httpx.Client() as keeping:
        for _ in range(4):
            call(fleet, "racing", keeping)
            time.sleep(
                draw.uniform(0.95, 1.15)
            )  # for about as long as a connection that may be used again is kept
    agent = until(fleet, "racing", "idle")
    assert agent["generation"] > 3
    assert (agent["failures"], agent["restarts"]) == (0, 0)


def test_a_killed_worker_is_replaced_by_the_next_call(fleet: Fleet) -> None:
    call(fleet, "killed")
    os.kill(fleet.agent("killed")["pid"], signal.SIGKILL)
    crashed = until(fleet, "killed", "idle")
    assert (crashed["generation"], crashed["last_exit"]) == (1, "killed by SIGKILL")
    with fleet.follow() as log:
        call(fleet, "killed")
        again = fleet.agent("killed")
        assert (again["generation"], again["restarts"]) == (2, 1)
        log.until(lambda record: record.get("agent") == "killed" and record.get("state") == "stopping")
        with contextlib.suppress(ProcessLookupError):
            os.kill(again["pid"], signal.SIGKILL)
    assert until(fleet, "killed", "idle")["failures"] == 0, "it was on its way out"
    call(fleet, "killed")
    assert fleet.agent("killed")["state"] == "ready"


def test_what_it_has_counted_goes_on_with_the_next_call_and_until_then_costs_nothing(fleet: Fleet) -> None:
    def series() -> list[str]:
        page = httpx.get(f"{fleet.deployment.registry}/metrics", timeout=PATIENCE).text
        return [line for line in page.splitlines() if 'agent="counting"' in line]

    call(fleet, "counting")
    assert 'pallas_send_message_total{agent="counting",outcome="ok"} 1.0' in series()
    os.kill(fleet.agent("counting")["pid"], signal.SIGKILL)
    until(fleet, "counting", "idle")
    idle = [line for line in series() if "restarts_total" not in line]
    assert [line.partition("{")[0] for line in idle] == [
        "pallas_agent_info",
        "pallas_agent_health_status",
        "pallas_worker_state",
    ]
    assert idle[1:] == [
        'pallas_agent_health_status{agent="counting"} 1.0',
        'pallas_worker_state{agent="counting",state="idle"} 1.0',
    ]
    call(fleet, "counting")
    assert 'pallas_send_message_total{agent="counting",outcome="ok"} 2.0' in series()


def test_the_operator_warms_it_up_and_disarms_it(fleet: Fleet) -> None:
    assert fleet.ctl("restart", "operated").returncode == 0
    assert fleet.agent("operated")["state"] == "idle", "there is nothing to be replaced"
    assert fleet.ctl("start", "operated").returncode == 0
    assert fleet.agent("operated")["state"] == "ready"
    assert fleet.ctl("restart", "operated").returncode == 0
    assert (fleet.agent("operated")["state"], fleet.agent("operated")["generation"]) == ("ready", 2)
    assert fleet.ctl("stop", "operated").returncode == 0
    answer = httpx.post(fleet.deployment.url("operated"), json=CALL, headers=HEADERS)
    assert answer.status_code == 503
    assert fleet.agent("operated")["state"] == "stopped"


def test_one_that_cannot_start_is_not_started_for_ever(fleet: Fleet) -> None:
    answer = httpx.post(fleet.deployment.url("broken"), json=CALL, headers=HEADERS, timeout=PATIENCE)
    assert answer.status_code == 503
    assert fleet.agent("broken")["state"] == "failed"
    assert fleet.ctl("start", "broken").returncode != 0


def test_an_idle_agent_takes_a_new_definition_with_its_next_start(fleet: Fleet) -> None:
    deployment = fleet.deployment
    deployment.add("added", start="on-demand")
    moved = deployment.agents["moved"]
    moved["port"], deployment.agents["added"]["port"] = deployment.agents["added"]["port"], moved["port"]
    deployment.write()
    assert fleet.ctl("reload").returncode == 0
    assert (fleet.agent("moved")["state"], fleet.agent("added")["state"]) == ("idle", "idle")
    for name in ("moved", "added"):
        call(fleet, name)
        assert fleet.agent(name)["state"] == "ready"
    deployment.agents["one"]["start"] = "always"
    deployment.write()
    until(fleet, "one", "idle")
    assert fleet.ctl("reload").returncode == 0
    fleet.wait("one")
    assert fleet.agent("one")["state"] == "ready"
