"""The worker that is forked ahead: used by the next start, made again, done without, and never left behind."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from support.clients import send_message
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.fleet.process_tree import await_end, descendants

if TYPE_CHECKING:
    from collections.abc import Iterator


START = "pallas_worker_start_time_seconds"

TRIES = 5
"""Starts of which one has to use what was forked ahead: if it stands still for a second, it is done without."""

DAEMON = """
import subprocess
command = ["setsid", "--fork", "env", "-i", "sleep", "1234"]
subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""
"""Begins a process of which nothing tells whose it is."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(
        tmp_path_factory.mktemp("spare") / "fleet", "one", "two", defaults={"max_failures": 100}
    )
    deployment.add("own", python=sys.executable)
    module = deployment.directory / "agents" / "own.py"
    module.write_text(module.read_text() + DAEMON)
    with Fleet(deployment) as running:
        running.wait()
        yield running


def test_the_next_worker_is_the_one_forked_ahead(fleet: Fleet) -> None:
    for name in ("one", "two", "one"):
        for _ in range(TRIES):
            spare = fleet.spare()
            assert spare.ppid() == fleet.keeper().pid, "as its parent reads the exit status of all workers"
            if fleet.kill(name) == spare.pid:
                break
        assert fleet.pids()[name] == spare.pid
        assert spare.cmdline()[0].startswith(f"pallas-worker {name} ")
        assert answers(fleet, name)


def test_a_worker_is_as_old_as_its_start_and_not_as_its_process(fleet: Fleet) -> None:
    for _ in range(TRIES):
        assert fleet.ctl("stop", "one").returncode == 0
        spare = fleet.spare()
        fleet.kill("own")  # which needs a start, but no fork
        daemon = fleet.descendant("sleep 1234")
        assert daemon.create_time() > spare.create_time()
        before = time.time()
        assert fleet.ctl("start", "one").returncode == 0
        if fleet.pids()["one"] == spare.pid:
            break
    assert fleet.pids()["one"] == spare.pid
    body = httpx.get(f"{fleet.deployment.registry}/metrics").text
    (line,) = [line for line in body.splitlines() if line.startswith(f'{START}{{agent="one"}} ')]
    assert before <= float(line.rpartition(" ")[2]) <= time.time()
    fleet.kill("one")
    assert daemon.is_running(), "it was there before the worker, and is not the worker's"


@pytest.mark.parametrize("fault", ["kill", "suspend"])
def test_one_that_cannot_be_used_is_done_without(fleet: Fleet, fault: str) -> None:
    spare = fleet.spare()
    getattr(spare, fault)()
    assert fleet.kill("one") != spare.pid
    assert await_end(spare.pid, 60)
    assert answers(fleet, "one")
    assert fleet.spare().pid != spare.pid
    fleet.await_that(
        lambda: not any(process.zombie for process in descendants(fleet.pid)), "no zombie is left"
    )


def test_it_ends_with_its_zygote(fleet: Fleet) -> None:
    spare = fleet.spare()
    with fleet.follow() as log:
        fleet.zygote().kill()
        log.until(lambda record: "the zygote died" in record["message"])
    assert await_end(spare.pid, 60)
    assert fleet.kill("two") not in (None, spare.pid)
    assert fleet.spare().pid != spare.pid


def test_it_holds_nothing_of_the_agents(fleet: Fleet) -> None:
    spare = fleet.spare()
    # What the supervisor's own stderr is, it may hold.
    allowed = {str(fleet.deployment.directory / "stderr.txt")}

    def holds_nothing() -> bool:
        listening = any(c.status == psutil.CONN_LISTEN for c in spare.net_connections())
        held = {entry.path for entry in spare.open_files()}
        return not listening and spare.num_threads() == 1 and held <= allowed

    fleet.await_that(holds_nothing, "it has rehearsed, and holds nothing")


def test_nothing_is_left_of_it(fleet: Fleet) -> None:
    spare = fleet.spare()
    assert fleet.stop() == 0
    assert await_end(spare.pid, 60)


def answers(fleet: Fleet, name: str) -> bool:
    """Whether the agent's worker does its work."""
    return asyncio.run(send_message(fleet.deployment.url(name), "hello")) == "hello"
