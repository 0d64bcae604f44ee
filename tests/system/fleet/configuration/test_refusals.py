"""What cannot be started: each cause says what is wrong, where, and the way out."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import httpx
import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet, run_to_end

if TYPE_CHECKING:
    from pathlib import Path


def test_configuration_errors_come_all_at_once_and_nothing_is_started(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet")
    ports = {"one": 0, "two": 0, "three": 0}
    for name in ports:
        deployment.add(name)
    agents = deployment.agents
    agents["one"]["depends_on"] = ["two"]
    agents["two"]["depends_on"] = ["one"]
    agents["three"]["depends_on"] = ["nobody"]
    agents["three"]["port"] = agents["one"]["port"]
    agents["three"]["colour"] = "blue"
    deployment.write()
    result = run_to_end(deployment)
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    for needle in ("cycle", "nobody", str(agents["one"]["port"]), "colour"):
        assert [line for line in lines if needle in line and "agents.yaml:" in line], (needle, lines)
    assert not (deployment.directory / "run").exists()
    assert not (deployment.directory / "log").exists()
    check = Fleet(deployment).ctl("check")
    assert check.returncode == 2
    assert len(check.stderr.splitlines()) >= 4


def test_a_missing_and_an_unreadable_file(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one")
    path = deployment.directory / "agents.yaml"
    path.unlink()
    missing = run_to_end(deployment)
    assert missing.returncode == 2
    assert "agents.yaml" in missing.stderr
    path.mkdir()  # root may read every file; a folder in its place nobody can
    unreadable = run_to_end(deployment)
    assert unreadable.returncode == 2
    assert "agents.yaml" in unreadable.stderr
    assert "Traceback" not in missing.stderr + unreadable.stderr


def test_a_port_that_is_taken_names_the_holder(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one", "two")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        deployment.agents["two"]["port"] = port
        deployment.write()
        result = run_to_end(deployment)
    assert result.returncode == 1
    assert f"port {port} (two) is taken by" in result.stderr
    assert "pid" in result.stderr
    assert not [line for line in result.stderr.splitlines() if "starting" in line]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("does_not_import", "ModuleNotFoundError: No module named 'nothing_that_exists'"),
        ("without_fast", "agents.bad has no `fast`"),
        ("exits_at_import", "SystemExit: 3"),
        ("shouts_at_import", "agents/bad.py:1: ValueError: xxx"),
    ],
)
def test_a_bad_module_fails_only_its_own_agent(tmp_path: Path, kind: str, message: str) -> None:
    deployment = make_deployment(tmp_path / "fleet", "good")
    deployment.add("bad", kind)
    with Fleet(deployment) as fleet:
        fleet.wait("good")
        fleet.wait("bad", until="settled")
        bad = fleet.agent("bad")
        assert bad["state"] == "failed"
        assert message in bad["message"]
        assert bad["last_exit"] == "exit status 78"
        table = fleet.ctl("status")
        assert message in table.stdout
        health = httpx.get(f"{deployment.registry}/health")
        assert (health.status_code, health.json()["status"]) == (200, "degraded")
        assert message in health.json()["agents"]["bad"]["message"]
        listed = httpx.get(f"{deployment.registry}/.well-known/mcp/server.json").json()["servers"]
        assert [entry["server"]["name"] for entry in listed] == ["local.test-fleet/good"]
        refused = httpx.post(deployment.url("bad"), json={})
        assert refused.status_code == 503
        assert message in refused.json()["error"]["message"]
        assert int(refused.headers["retry-after"]) > 0


def test_a_module_that_never_ends_to_import_says_where_it_is(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "good")
    # It starts when the process that forks it has long imported what all workers need.
    deployment.add("bad", "hangs_at_import", start_timeout=5, max_failures=1, depends_on=["good"])
    with Fleet(deployment) as fleet:
        fleet.wait("bad", until="settled")
        expected = "not ready within 5 s: it was importing, at agents/bad.py:2 in <module>"
        assert fleet.agent("bad")["message"] == expected
        assert fleet.agent("bad")["last_exit"] == "exit status 70"
        assert "threading.Event().wait()" in fleet.ctl("logs", "bad").stdout


def test_a_fleet_in_which_nobody_can_serve_is_an_error(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet")
    deployment.add("bad", "does_not_import")
    with Fleet(deployment) as fleet:
        fleet.wait("bad", until="settled")
        health = httpx.get(f"{deployment.registry}/health")
        assert (health.status_code, health.json()["status"]) == (503, "error")
        assert httpx.get(f"{deployment.registry}/readyz").status_code == 503
        assert httpx.get(f"{deployment.registry}/livez").status_code == 200


def test_a_second_supervisor_is_told_who_holds_the_deployment(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one")
    with Fleet(deployment) as fleet:
        second = run_to_end(deployment)
        assert second.returncode == 1
        assert f"process {fleet.pid}" in second.stderr
        fleet.wait()


def test_an_agent_that_is_not_deployed(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one")
    result = run_to_end(deployment, "--agent", "two")
    assert result.returncode == 2
    assert "one" in result.stderr
