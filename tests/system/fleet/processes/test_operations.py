"""The operator's verbs on a real fleet, through the real `pallasctl`."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import httpx
import psutil

from pallas_common.processes.signals import ORDINARY
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = {
    "name": str,
    "state": str,
    "desired": str,
    "pid": int | None,
    "port": int,
    "restarts": int,
    "failures": int,
    "since": str,
    "health": str,
    "message": str,
    "last_exit": str | None,
}


def test_status_has_the_shape_that_scripts_rely_on(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one", "two")
    with Fleet(deployment) as fleet:
        fleet.wait()
        result = fleet.ctl("status", "-o", "json")
        assert result.returncode == 0
        document = json.loads(result.stdout)
        assert document["deployment"] == "test-fleet"
        assert document["supervisor"]["pid"] == fleet.pid
        assert set(document["supervisor"]) == {"pid", "version", "since", "state_directory"}
        assert [agent["name"] for agent in document["agents"]] == ["one", "two"]
        for agent in document["agents"]:
            for field, type_ in SHAPE.items():
                assert isinstance(agent[field], type_), field
            assert (agent["state"], agent["desired"]) == ("ready", "up")
    assert fleet.ctl("status").returncode == 4, "no supervisor: unknown"


def test_stop_start_restart_are_idempotent_and_concern_only_the_named_agent(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one", "two")
    with Fleet(deployment) as fleet:
        fleet.wait()
        two = fleet.agent("two")["pid"]
        for _ in range(2):
            assert fleet.ctl("stop", "one").returncode == 0
            stopped = fleet.agent("one")
            assert (stopped["state"], stopped["desired"], stopped["pid"]) == ("stopped", "down", None)
        assert fleet.ctl("status").returncode == 0, "an agent that is meant to be down does not count"
        for _ in range(2):
            assert fleet.ctl("start", "one").returncode == 0
            assert fleet.agent("one")["state"] == "ready"
        first = fleet.agent("one")["pid"]
        assert fleet.ctl("restart", "one").returncode == 0
        assert fleet.agent("one")["pid"] not in (None, first)
        assert fleet.agent("one")["restarts"] == 1
        assert fleet.agent("two")["pid"] == two
        unknown = fleet.ctl("restart", "three")
        assert unknown.returncode != 0
        assert "three" in unknown.stderr
        assert "one, two" in unknown.stderr


def test_starting_an_agent_starts_what_it_needs(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "base")
    deployment.add("top", depends_on=["base"])
    with Fleet(deployment) as fleet:
        fleet.wait()
        assert fleet.ctl("stop", "--all").returncode == 0
        assert {agent["state"] for agent in fleet.status()["agents"]} == {"stopped"}
        assert httpx.get(f"{deployment.registry}/.well-known/mcp/server.json").json() == {"servers": []}
        assert fleet.ctl("start", "top").returncode == 0
        assert {agent["state"] for agent in fleet.status()["agents"]} == {"ready"}


def test_logs_of_an_agent_are_its_own_and_parse(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "quiet")
    deployment.add("loud")
    module = deployment.directory / "agents" / "loud.py"
    module.write_text(
        module.read_text() + "\nimport sys\nprint('to stdout')\nprint('to stderr', file=sys.stderr)\n"
    )
    with Fleet(deployment) as fleet:
        fleet.wait()
        lines = fleet.ctl("logs", "loud", "-n", "200", "-o", "json").stdout.splitlines()
        records = [json.loads(line) for line in lines]
        assert {record["agent"] for record in records} == {"loud"}
        messages = [record["message"] for record in records]
        assert "to stdout" in messages
        assert "to stderr" in messages
        assert [record["time"] for record in records] == sorted(record["time"] for record in records)
        assert "to stdout" not in fleet.ctl("logs", "quiet").stdout
        assert "to stdout" in fleet.ctl("logs", "loud").stdout
        assert fleet.ctl("stop", "loud").returncode == 0
    assert "to stdout" in [record["message"] for record in fleet.records()], "the file has it as well"


def test_one_agent_alone_has_no_registry_and_no_dependencies(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "base")
    deployment.add("top", depends_on=["base"])
    with Fleet(deployment, "--agent", "top") as fleet:
        fleet.wait()
        assert [agent["name"] for agent in fleet.status()["agents"]] == ["top"]
        assert fleet.ctl("reload").stdout == "nothing changed\n", "the others are none of its business"
        assert not _listens(deployment.document["registry_port"])
        assert not _listens(deployment.agents["base"]["port"])
        pid = fleet.agent("top")["pid"]
        assert fleet.kill("top") != pid, "still a supervised worker"


def test_an_agent_with_its_own_interpreter_is_executed_there(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "forked", "forked_too")
    deployment.add("executed", python=sys.executable, env={"GREETING": "hello"})
    module = deployment.directory / "agents" / "executed.py"
    module.write_text(
        module.read_text()
        + "import os, sys\nprint('from', os.environ['GREETING'], sys.executable, 'NOTIFY_SOCKET' in os.environ)\n"
    )
    deployment.add("nowhere", python="/bin/false")
    with Fleet(deployment, env={"NOTIFY_SOCKET": "/nowhere"}) as fleet:
        fleet.wait("forked", "executed")
        assert psutil.Process(fleet.agent("executed")["pid"]).ppid() == fleet.keeper().pid
        assert f"from hello {sys.executable} False" in [record["message"] for record in fleet.records()]
        fleet.wait("nowhere", until="settled")
        assert fleet.agent("nowhere")["state"] == "failed"


def _listens(port: int) -> bool:
    return any(
        connection.laddr.port == port
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr
    )


def test_no_ordinary_signal_ends_a_process_and_the_log_follows_its_name(tmp_path: Path) -> None:
    with Fleet(make_deployment(tmp_path / "fleet", "one")) as fleet:
        fleet.wait()
        worker = fleet.agent("one")["pid"]
        supervisor = psutil.Process(fleet.pid)
        all_ = {process.pid: " ".join(process.cmdline()) for process in supervisor.children(recursive=True)}
        lasting = {
            pid for pid, title in all_.items() if not title.startswith(("pallas-worker", "pallas-spare"))
        }
        fleet.log_file.rename(fleet.log_file.with_suffix(".old"))
        for pid in (fleet.pid, *all_):
            for number in (*ORDINARY, signal.SIGWINCH):
                os.kill(pid, number)
        assert fleet.agent("one")["pid"] == worker
        assert fleet.ctl("restart", "one").returncode == 0  # all have had their turn by then
        assert fleet.ctl("stop", "one").returncode == 0
        assert lasting <= {process.pid for process in supervisor.children(recursive=True)}
        fleet.await_that(
            lambda: (
                fleet.log_file.exists()
                and any(record["message"] == "one: stopping -> stopped" for record in fleet.written())
            ),
            "the file of the log's name has what came after",
        )
