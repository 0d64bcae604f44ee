"""The gateway's process, supervised like a worker: killed, stuck, replaced under load, reloaded, and left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import BIN, PATIENCE, Fleet
from support.gateway.door import Door, operator_token, with_gateway
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = {"liveness_interval": 0.5, "liveness_misses": 2, "stop_timeout": 5}


class Calls:
    """How many requests were answered, by status, and what went wrong."""

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.errors: list[str] = []


@contextmanager
def calling(url: str) -> Iterator[Calls]:
    """Ask for `/health` on a new connection, again and again, until the end of the block."""
    calls, over = Calls(), threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                status = httpx.get(f"{url}/health", timeout=PATIENCE).status_code
            except httpx.HTTPError as error:
                calls.errors.append(repr(error))
            else:
                calls.statuses[status] = calls.statuses.get(status, 0) + 1

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield calls
    finally:
        over.set()
        for thread in threads:
            thread.join()


def gateway(fleet: Fleet) -> dict[str, Any]:
    """Its entry of the status document."""
    entry: dict[str, Any] = fleet.status()["gateway"]
    return entry


def await_ready(fleet: Fleet) -> dict[str, Any]:
    """Its entry once it is ready."""
    answer = fleet.post("/v1/gateway/wait", timeout=PATIENCE).json()
    assert answer["done"], answer
    entry: dict[str, Any] = answer["gateway"]
    return entry


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("door") / "fleet", "jarvis")
    deployment.document["gateway"] = {**SETTINGS, "port": free_ports(1)[0]}
    deployment.write()
    with Fleet(deployment) as running:
        running.wait()
        await_ready(running)
        yield running


def test_it_runs_and_says_who_it_is(fleet: Fleet) -> None:
    entry = await_ready(fleet)
    process = psutil.Process(entry["pid"])
    assert process.cmdline()[0].startswith(f"pallas-gateway {entry['generation']} ")
    assert process.environ()["PALLAS_RUNTIME_DIR"] == str(fleet.runtime)
    assert process.cwd() == str(fleet.state)
    fleet.await_that(
        lambda: httpx.get(f"{entry['url']}/health").json() == {"status": "ok"},
        "it has heard of the agents",
    )
    fleet.await_that(
        lambda: httpx.get(f"{fleet.deployment.registry}/health").json()["gateway"]["status"] == "ok",
        "it has told the supervisor so",
    )
    assert "Gateway" in httpx.get(f"{fleet.deployment.registry}/").text
    assert "pallas_gateway_up 1.0" in httpx.get(f"{fleet.deployment.registry}/metrics").text
    shown = fleet.ctl("gateway", "status")
    assert (shown.returncode, shown.stdout.splitlines()[0]) == (
        0,
        f"gateway: ready (pid {entry['pid']}) at {entry['public_url']}",
    )
    shown_log = fleet.ctl("logs", "gateway").stdout
    assert "gateway: starting -> ready" in shown_log
    assert "alembic" not in shown_log, "what it says of its insides while it makes the first tables"
    assert "starting -> ready" in fleet.ctl("events", "gateway").stdout
    assert fleet.ctl("wait", "jarvis", "gateway").stdout.splitlines()[1] == shown.stdout.splitlines()[0]
    assert fleet.ctl("describe", "gateway").stdout.splitlines()[0] == shown.stdout.splitlines()[0]


def test_who_starts_it_is_told_where_its_token_is(fleet: Fleet) -> None:
    await_ready(fleet)
    file = fleet.state / "operator.token"
    entry = gateway(fleet)
    said = f"the gateway serves at {entry['public_url']}/mcp; its token for pallasctl and you is in {file}"
    assert fleet.stderr.count(said) == 1
    assert file.read_text().strip() not in fleet.stderr


def test_its_log_is_followed_by_its_name(fleet: Fleet) -> None:
    await_ready(fleet)
    command = [str(BIN / "pallasctl"), "logs", "-f", "-n", "1", "gateway"]
    with subprocess.Popen(
        command, cwd=fleet.deployment.directory, env=fleet.environment, stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        following.stdout.readline()  # what there was
        fleet.ctl("gateway", "restart")
        assert any("draining" in line for line in following.stdout)
        following.terminate()


def test_killed_it_comes_again_and_nobody_is_refused(fleet: Fleet) -> None:
    before, agents = await_ready(fleet), fleet.pids()
    with calling(before["url"]) as calls, fleet.follow() as log:
        os.kill(before["pid"], signal.SIGKILL)
        log.until(lambda r: r.get("agent") == "gateway" and r.get("exit") == "killed by SIGKILL")
        after = await_ready(fleet)
    refused = [error for error in calls.errors if "ConnectError" in error]
    assert (refused, after["restarts"]) == ([], before["restarts"] + 1)
    assert after["pid"] != before["pid"]
    assert fleet.pids() == agents


def test_replaced_under_load_no_request_is_lost(fleet: Fleet) -> None:
    before = await_ready(fleet)
    with calling(before["url"]) as calls:
        done = fleet.ctl("gateway", "restart", "--timeout", str(PATIENCE))
    assert done.returncode == 0, done.stderr
    assert (calls.errors, set(calls.statuses)) == ([], {200})
    assert gateway(fleet)["generation"] > before["generation"]


def test_stuck_it_is_killed_and_started_again(fleet: Fleet) -> None:
    before = await_ready(fleet)
    with fleet.follow() as log:
        os.kill(before["pid"], signal.SIGSTOP)
        log.until(lambda r: r.get("agent") == "gateway" and r.get("state") == "ready")
    assert gateway(fleet)["pid"] != before["pid"]


def test_a_reload_moves_it_and_takes_it_away_and_brings_it_back(fleet: Fleet) -> None:
    before = await_ready(fleet)
    document = fleet.deployment.document
    settings = document["gateway"]
    document["gateway"] = {**settings, "port": free_ports(1)[0]}
    fleet.deployment.write()
    assert fleet.ctl("reload").returncode == 0
    moved = await_ready(fleet)
    assert moved["port"] != before["port"]
    assert httpx.get(f"{moved['url']}/health").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{before['url']}/health")
    del document["gateway"]
    fleet.deployment.write()
    assert fleet.ctl("reload").returncode == 0
    assert fleet.status()["gateway"] is None
    assert not psutil.pid_exists(moved["pid"])
    document["gateway"] = settings
    fleet.deployment.write()
    assert fleet.ctl("reload").returncode == 0
    assert httpx.get(f"{await_ready(fleet)['url']}/health").status_code == 200


def test_every_part_is_at_the_address_that_is_named(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "jarvis", bind="127.0.0.3")
    with_gateway(deployment, **SETTINGS, bind="127.0.0.2")
    settings = deployment.document["gateway"]
    with Fleet(deployment) as fleet:
        fleet.wait()
        entry = await_ready(fleet)
        assert entry["url"] == entry["public_url"] == f"http://127.0.0.2:{settings['port']}"
        human = Door(entry["url"], operator_token(fleet))
        assert human.tool("ask_agent", name="jarvis", prompt="hello").text.count("hello") == 1
        beside = Door(entry["url"], operator_token(fleet), path="/mcp/agents/jarvis")
        assert "hello" in beside.tool("chat", message="hello").text
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{settings['port']}/health")
        settings["bind"] = "127.0.0.4"
        deployment.write()
        assert fleet.ctl("reload").returncode == 0
        assert httpx.get(f"{await_ready(fleet)['url']}/health").status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{entry['url']}/health")
        settings["bind"] = "0.0.0.0"
        deployment.write()
        refused = fleet.ctl("reload")
        assert refused.returncode == 1
        assert "gateway.bind changed" in refused.stderr
        assert "which needs a restart of the supervisor" in refused.stderr
        assert gateway(fleet)["bind"] == "127.0.0.4"


def test_it_ends_with_the_supervisor_however_that_ends(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "jarvis")
    deployment.document["gateway"] = {**SETTINGS, "port": free_ports(1)[0]}
    deployment.write()
    with Fleet(deployment) as fleet:
        entry = await_ready(fleet)
        process = psutil.Process(entry["pid"])
        os.kill(fleet.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        fleet.start()  # which needs the port
        again = await_ready(fleet)
        assert again["url"] == entry["url"]
        children = fleet.processes()[1:]
        assert fleet.stop() == 0
        _, left = psutil.wait_procs(children, PATIENCE)
        assert left == []
    stopped = [r for r in fleet.written() if r.get("agent") == "gateway" and r.get("state") == "stopped"]
    assert stopped, "its end is in the log"
