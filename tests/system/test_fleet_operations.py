"""The operator's verbs on a real fleet, through the real `pallasctl`."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING

import httpx
import psutil

from harness.deployment import make_deployment
from harness.fleet import Fleet
from harness.ports import free_ports

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
        assert set(document["supervisor"]) == {"pid", "version", "since"}
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


def test_reload_moves_only_what_changed(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "kept", "changed", "leaves")
    with Fleet(deployment) as fleet:
        fleet.wait()
        before = fleet.pids()
        assert fleet.ctl("reload").returncode == 0
        assert fleet.pids() == before, "a reload without a change keeps every process"

        old_port = deployment.agents["leaves"]["port"]
        deployment.agents["changed"]["description"] = "Says it differently now"
        deployment.agents["kept"]["stop_timeout"] = 3
        del deployment.agents["leaves"]
        deployment.add("joins", depends_on=["changed"])
        dry = fleet.ctl("reload", "--dry-run")
        assert dry.returncode == 0
        assert fleet.pids() == before
        assert fleet.ctl("reload").returncode == 0
        fleet.wait()
        after = fleet.pids()
        assert set(after) == {"kept", "changed", "joins"}
        assert after["kept"] == before["kept"]
        assert after["changed"] not in (None, before["changed"])
        servers = httpx.get(f"{deployment.registry}/.well-known/mcp/server.json").json()["servers"]
        described = {
            entry["server"]["name"].split("/")[1]: entry["server"]["description"] for entry in servers
        }
        assert set(described) == {"kept", "changed", "joins"}
        assert described["changed"] == "Says it differently now"
        metrics = httpx.get(f"{deployment.registry}/metrics").text
        assert 'agent="leaves"' not in metrics
        assert 'agent="joins"' in metrics
        assert not _listens(old_port)


def test_an_invalid_file_changes_nothing_and_says_why(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one")
    with Fleet(deployment) as fleet:
        fleet.wait()
        before = fleet.pids()
        deployment.agents["one"]["depends_on"] = ["nobody"]
        deployment.write()
        refused = fleet.ctl("reload")
        assert refused.returncode == 1
        assert "nobody" in refused.stderr
        with fleet.follow() as log:
            psutil.Process(fleet.pid).send_signal(signal.SIGHUP)
            log.until(lambda record: record["level"] == "ERROR" and "nobody" in record["message"])
        assert fleet.pids() == before


def test_an_agent_moves_to_another_port(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "moves")
    with Fleet(deployment) as fleet:
        fleet.wait()
        old = deployment.agents["moves"]["port"]
        deployment.agents["moves"]["port"] = free_ports(1)[0]
        deployment.write()
        assert fleet.ctl("reload").returncode == 0
        fleet.wait()
        assert httpx.get(deployment.url("moves").replace("/mcp", "/livez")).status_code == 200
        assert not _listens(old)


def test_one_agent_alone_has_no_registry_and_no_dependencies(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "base")
    deployment.add("top", depends_on=["base"])
    with Fleet(deployment, "--agent", "top") as fleet:
        fleet.wait()
        assert [agent["name"] for agent in fleet.status()["agents"]] == ["top"]
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
        assert psutil.Process(fleet.agent("executed")["pid"]).ppid() == fleet.pid
        assert f"from hello {sys.executable} False" in [record["message"] for record in fleet.records()]
        fleet.wait("nowhere", until="settled")
        assert fleet.agent("nowhere")["state"] == "failed"


def _listens(port: int) -> bool:
    return any(
        connection.laddr.port == port
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr
    )
