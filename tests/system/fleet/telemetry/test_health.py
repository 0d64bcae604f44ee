"""Health of a real fleet: who is asked how often, what is shown of it, and how it follows servers that come and go."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from fakes.downstream import RunningDownstream, run_downstream
from support.fleet.deployment import make_deployment
from support.fleet.fleet import PATIENCE, Fleet
from support.ports import free_ports
from support.worker.patience import make_patient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERVAL = 0.5
AGENTS = [f"a{number}" for number in range(10)]
OTHERS = ["b0", "b1"]
"""Agents with a credential of their own for the same server."""
BEARERS = (("one", AGENTS), ("two", OTHERS))

pytestmark = pytest.mark.usefixtures("library")


class Library:
    """The downstream server of all agents, which may go and come back at the same address."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        # Not a port that the kernel gives out: while the server is gone, a connection would take it.
        self.server: RunningDownstream = stack.enter_context(run_downstream(port=free_ports(1)[0]))

    def goes(self) -> None:
        self.server.stop()

    def comes_back(self) -> None:
        self.server = self._stack.enter_context(run_downstream(port=self.server.port))

    def probes(self) -> dict[str | None, int]:
        """How often the server was probed so far, by bearer; what agents ask of it themselves does not count."""
        counts: dict[str | None, int] = {"one": 0, "two": 0, None: 0}
        for request in self.server.requests:
            if b"pallas-probe" in request.body:
                counts[request.bearer] += 1
        return counts

    def wait_for(self, bearer: str | None, count: int) -> dict[str | None, int]:
        """The counts, once there are so many with this bearer."""
        self.server.wait_for(lambda _: self.probes()[bearer] >= count, PATIENCE)
        return self.probes()


@pytest.fixture(scope="module")
def library() -> Iterator[Library]:
    with contextlib.ExitStack() as stack:
        yield Library(stack)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, library: Library) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("health") / "fleet")

    def server(token: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}"}
        return {"transport": "http", "url": library.server.url, "headers": headers}

    deployment.servers = {
        "library": server("one"),
        "archive": server("two"),
        "personal": {"transport": "http", "url": library.server.url, "forward_inbound_auth": True},
    }
    for name in AGENTS:
        deployment.add(name, servers=("library", "personal"))
    for name in OTHERS:
        deployment.add(name, servers=("archive",))
    make_patient(deployment.directory / "agents")
    with Fleet(deployment, env={"PALLAS_PROBE_INTERVAL": str(INTERVAL)}) as running:
        running.wait()
        until(running, all_up)
        yield running


def agents(fleet: Fleet) -> dict[str, Any]:
    document: dict[str, Any] = httpx.get(f"{fleet.deployment.registry}/health", timeout=PATIENCE).json()
    agents: dict[str, Any] = document["agents"]
    return agents


def until(fleet: Fleet, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The agents' entries of the health document, once they are like this."""
    deadline = time.monotonic() + PATIENCE
    while not reached(found := agents(fleet)):
        assert time.monotonic() < deadline, json.dumps(found, indent=1)
        time.sleep(0.05)  # between two looks: the document offers no event
    return found


def all_up(agents: dict[str, Any]) -> bool:
    """Whether each agent has found all its servers, and itself, well; without a report yet, it would only count so."""
    servers = {**dict.fromkeys(AGENTS, 2), **dict.fromkeys(OTHERS, 1)}
    return all(
        agents[name]["status"] == "ok" and len(agents[name]["downstreams"]) == count
        for name, count in servers.items()
    )


def gauges(fleet: Fleet, name: str, **wanted: str) -> dict[str, float]:
    """The values of a gauge by agent."""
    page = httpx.get(f"{fleet.deployment.registry}/metrics", timeout=PATIENCE).text
    return {
        sample.labels["agent"]: sample.value
        for family in parse_text(page)
        if family.name == name
        for sample in family.samples
        if wanted.items() <= sample.labels.items()
    }


def server_of(entry: dict[str, Any], name: str) -> dict[str, Any]:
    return next(server for server in entry["downstreams"] if server["name"] == name)


def test_each_agent_probes_by_itself(fleet: Fleet, library: Library) -> None:
    """Also where others have the same server and credentials: no agent's health depends on what another one says."""
    each = len(AGENTS)

    def as_many_as_agents(counts: dict[str | None, int]) -> bool:
        return all(
            0.5 * counts[None] <= counts[bearer] * each / len(named) <= 2 * counts[None]
            for bearer, named in BEARERS
        )

    library.server.forget()
    library.wait_for(None, 10 * each)
    # An agent may stand still for a while: in the long run, that does not count.
    fleet.await_that(lambda: as_many_as_agents(library.probes()), "each agent asks as often as all others")


def test_all_follow_a_server_that_goes_and_comes_back(fleet: Fleet, library: Library) -> None:
    before = until(fleet, all_up)
    library.goes()
    # A probe that was under way had its connection broken off; the next one finds nobody.
    down = until(
        fleet,
        lambda found: all(
            s["error"] == "cannot connect" for entry in found.values() for s in entry["downstreams"]
        ),
    )
    assert {entry["status"] for entry in down.values()} == {"degraded"}
    for name in AGENTS:
        entry, was = server_of(down[name], "library"), server_of(before[name], "library")
        assert (entry["up"], entry["error"], entry["last_error"]) == (
            False,
            "cannot connect",
            "cannot connect",
        )
        assert was["since"] < entry["since"] <= entry["checked"] == entry["last_error_at"]
        assert (was["up"], was["error"]) == (True, None)
        assert was["latency"] > 0
        assert was["since"] <= was["checked"]
        assert "Unreachable: library" in down[name]["message"]
        assert down[name]["since"] > before[name]["since"]
    assert gauges(fleet, "pallas_downstream_up", server="library") == dict.fromkeys(AGENTS, 0.0)
    assert gauges(fleet, "pallas_downstream_up", server="archive") == dict.fromkeys(OTHERS, 0.0)
    assert set(gauges(fleet, "pallas_agent_health_status").values()) == {0.5}
    library.comes_back()
    back = until(fleet, all_up)
    for name in AGENTS:
        entry = server_of(back[name], "library")
        assert (entry["up"], entry["error"], entry["last_error"]) == (True, None, "cannot connect")
        assert entry["since"] >= entry["last_error_at"]
    assert gauges(fleet, "pallas_downstream_up", server="library") == dict.fromkeys(AGENTS, 1.0)
    assert set(gauges(fleet, "pallas_agent_health_status").values()) == {1.0}


def test_others_probe_on_when_some_are_killed(fleet: Fleet, library: Library) -> None:
    library.server.forget()
    library.wait_for("one", 1)
    last = AGENTS[-1]
    fleet.post("/v1/stop", agents=AGENTS[1:-1])
    for name in (AGENTS[0], OTHERS[0]):
        pid = fleet.agent(name)["pid"]
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGKILL)
    fleet.post("/v1/stop", agents=[AGENTS[0], OTHERS[0]])
    seen = server_of(agents(fleet)[last], "library")["checked"]
    counts = library.probes()
    library.wait_for("one", counts["one"] + 3)
    library.wait_for("two", counts["two"] + 3)
    library.goes()
    found = until(fleet, lambda found: found[last]["status"] == found[OTHERS[1]]["status"] == "degraded")
    assert server_of(found[last], "library")["checked"] > seen
    library.comes_back()
    until(fleet, lambda found: found[last]["status"] == found[OTHERS[1]]["status"] == "ok")
    fleet.post("/v1/start", agents=[*AGENTS, *OTHERS])
    fleet.wait()
    until(fleet, all_up)


def test_pallasctl_shows_the_same(fleet: Fleet) -> None:
    document = json.loads(fleet.ctl("health", "-o", "json").stdout)
    assert document["agents"].keys() == agents(fleet).keys()
    wide = fleet.ctl("health", "-o", "wide")
    assert wide.returncode == 0
    rows = [line.split()[:4] for line in wide.stdout.splitlines()]
    assert [row for row in rows if row[1:3] == ["server", "archive"]] == [
        [name, "server", "archive", "up"] for name in OTHERS
    ]


def test_no_bearer_is_in_what_is_told(fleet: Fleet) -> None:
    told = fleet.ctl("health", "-o", "json").stdout + fleet.log_file.read_text()
    assert "Bearer" not in told
