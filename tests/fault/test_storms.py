"""What once stopped a supervisor or lost it an agent, each by its name; `test_campaign` looks for more of the kind.

One fleet for all of it, started without stdin, stdout and stderr, as `pallas <&- >&- 2>&-` is.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import resource
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from support.clients import send_message
from support.faults.orders import Orders
from support.fleet.deployment import make_deployment
from support.fleet.fleet import PATIENCE, Fleet
from support.fleet.process_tree import await_end

if TYPE_CHECKING:
    from collections.abc import Iterator

WITHOUT_STANDARD_DESCRIPTORS = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")

GATE = """\
import fcntl, sys
if "pallas_worker.process.zygote" in sys.orig_argv:
    with open({gate!r}) as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)
"""
"""A `sitecustomize`: a zygote does not begin while somebody else holds the lock."""


class Storm:
    """A fleet of two forked agents: `quiet`, and `loud`, which does what it is told."""

    def __init__(self, fleet: Fleet, orders: Orders, gate: Path) -> None:
        self.fleet = fleet
        self.orders = orders
        self._gate = gate

    def answers(self, agent: str) -> bool:
        return asyncio.run(send_message(self.fleet.deployment.url(agent), "still there?")) == "still there?"

    @contextmanager
    def without_descriptors(self) -> Iterator[None]:
        """The supervisor can open nothing meanwhile."""
        soft, hard = resource.prlimit(self.fleet.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.fleet.pid, resource.RLIMIT_NOFILE, (3, hard))
        try:
            yield
        finally:
            resource.prlimit(self.fleet.pid, resource.RLIMIT_NOFILE, (soft, hard))

    @contextmanager
    def zygotes_held_up(self) -> Iterator[None]:
        """One that is started meanwhile imports nothing before the end."""
        with self._gate.open() as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            yield


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storm]:
    site = tmp_path_factory.mktemp("site")
    gate = site / "gate"
    gate.touch()
    (site / "sitecustomize.py").write_text(GATE.format(gate=str(gate)))
    deployment = make_deployment(tmp_path_factory.mktemp("storm") / "fleet", "quiet")
    orders = Orders(deployment)
    orders.add("loud", stop_timeout=1)
    fleet = Fleet(deployment, env={"PYTHONPATH": str(site)})
    fleet.wrapper = WITHOUT_STANDARD_DESCRIPTORS
    with fleet:
        fleet.wait()
        yield Storm(fleet, orders, gate)


def test_no_socket_takes_the_number_of_a_standard_descriptor(storm: Storm) -> None:
    for process in (storm.fleet.pid, storm.fleet.zygote().pid):
        targets = [Path(f"/proc/{process}/fd/{number}").readlink() for number in range(3)]
        assert targets == [Path("/dev/null")] * 3


def test_a_reader_that_leaves_in_the_middle_of_a_flood_is_forgotten(storm: Storm) -> None:
    storm.orders.tell("loud", "flood", size=20_000_000)
    for _ in range(3):
        storm.fleet.leave_the_log()
    storm.orders.ask("loud", "nothing")
    assert storm.fleet.status()["agents"]
    assert "socket.send() raised exception" not in storm.fleet.get("/v1/logs?n=1000").text
    assert storm.answers("loud")


def test_whatever_a_worker_writes_to_the_supervisor_its_death_is_told_and_nobody_else_notices(
    storm: Storm,
) -> None:
    lines = [
        ('{"kind":"health","status":"ok","timestamp":"now","downstreams":[[1]]}', "", 0, ""),
        ("", "[", 60_000, ""),
        ('{"kind":"heartbeat","interval":1e-300}', "", 0, ""),
        ('{"kind":"heartbeat","interval":NaN}', "", 0, ""),
        ("", "-eyjaaaaaaaa", 5_000, ""),
        ('{"message":"', "-eyjaaaaaaaa", 5_000, '"}'),
        ('{"time":"2099-01-01T00:00:00.000000Z","logger":"pallas.supervisor",', "", 0, '"message":"forged"}'),
        ('{"agent":"quiet","pid":1,', "", 0, '"logger":"pallas.worker","message":"forged"}'),
    ]
    before = storm.fleet.kill(
        "loud"
    )  # a worker that may still say as much as it likes, after the floods of others
    assert storm.answers("loud")
    storm.orders.tell("loud", "babble", lines=lines, times=20)
    storm.fleet.await_that(lambda: storm.fleet.agent("loud")["pid"] not in (before, None), "another worker")
    storm.fleet.wait("loud")
    assert storm.answers("loud")
    assert storm.answers("quiet")
    records = list(map(json.loads, storm.fleet.get("/v1/logs?n=1000000").text.splitlines()))
    forged = [record for record in records if record["message"] == "forged"]
    assert {(record["agent"], record["logger"]) for record in forged} == {
        ("loud", "pallas.output"),
        ("loud", "pallas.worker"),
    }
    assert {record.get("pid") for record in forged} == {before}
    assert all(record["time"] < "2099" for record in forged)
    assert sum("cannot be read" in record["message"] for record in records) == 1


def test_the_status_is_told_when_no_descriptor_is_left(storm: Storm) -> None:
    with storm.fleet._client() as client:
        assert client.get("/v1/status").status_code == 200
        with storm.without_descriptors():
            status = client.get("/v1/status")
            assert status.status_code == 200, status.text
            assert {agent["state"] for agent in status.json()["agents"]} == {"ready"}


def test_a_worker_that_dies_while_no_descriptor_is_left_comes_back(storm: Storm) -> None:
    before = storm.fleet.pids()
    died = before["quiet"]
    assert died is not None
    with storm.fleet._client() as client:
        client.get("/v1/status")
        with storm.without_descriptors():
            os.kill(died, signal.SIGKILL)
            assert await_end(died, PATIENCE)
            wait = {"agents": ["quiet"], "for": "settled", "timeout": 1.0}
            client.post("/v1/wait", json=wait, timeout=httpx.Timeout(PATIENCE))
    storm.fleet.wait("quiet")
    after = storm.fleet.pids()
    assert after["quiet"] != died
    assert after["loud"] == before["loud"]
    assert storm.answers("quiet")


def test_one_that_could_not_be_reaped_in_time_comes_back_once_there_are_descriptors_again(
    storm: Storm,
) -> None:
    died = storm.fleet.pids()["quiet"]
    assert died is not None
    with storm.fleet.follow() as log:
        with storm.without_descriptors():
            os.kill(died, signal.SIGKILL)
            failed = log.until(
                lambda record: record.get("agent") == "quiet" and record.get("state") == "failed"
            )
            assert "cannot be killed" in failed["message"]
        log.until(lambda record: record.get("agent") == "quiet" and record.get("state") == "ready")
    assert storm.fleet.agent("quiet")["last_exit"] == "killed by SIGKILL"
    assert storm.answers("quiet")


def test_an_agent_that_waits_for_the_zygote_can_be_stopped(storm: Storm) -> None:
    """It has no process yet; it was said to have one that cannot be killed."""
    fleet = storm.fleet
    with fleet.follow() as log, storm.zygotes_held_up():
        fleet.zygote().kill()
        log.until(lambda record: "the zygote died" in record["message"])
        os.kill(fleet.agent("loud")["pid"], signal.SIGKILL)
        log.until(lambda record: record.get("agent") == "loud" and record.get("state") == "starting")
        stopped = fleet.post("/v1/stop", agents=["loud"]).json()
    assert stopped["done"], stopped
    assert stopped["agents"][0]["state"] == "stopped"
    assert fleet.post("/v1/start", agents=["loud"]).json()["done"]
    assert storm.answers("loud")
