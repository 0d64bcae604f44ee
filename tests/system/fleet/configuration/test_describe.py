"""What people see who look closely at a real fleet: `pallasctl describe`, `cat` and `top`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fakes.downstream import run_downstream
from pallas_registry.deployment.agents_file import read_deployment
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

SAYS = "\nprint('the index was opened')\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with run_downstream() as tools:
        deployment = make_deployment(tmp_path_factory.mktemp("describe") / "fleet", "base")
        deployment.servers["tools"] = {"transport": "http", "url": tools.url}
        deployment.document = {"defaults": {"stop_timeout": 7}, **deployment.document}
        environment = {"MODE": "fast", "BASE_TOKEN": "hunter22hunter22"}
        deployment.add("top", servers=("tools",), depends_on=["base"], env=environment)
        module = deployment.directory / "agents" / "base.py"
        module.write_text(module.read_text() + SAYS)
        with Fleet(deployment) as running:
            running.wait()
            yield running


def described(fleet: Fleet, name: str) -> dict[str, Any]:
    result = fleet.ctl("describe", "agent", name, "-o", "json")
    assert result.returncode == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_a_crash_is_told_with_what_the_worker_wrote(fleet: Fleet) -> None:
    before = fleet.agent("base")
    fleet.kill("base")
    [past, *_] = described(fleet, "base")["exits"]
    assert (past["exit"], past["asked"]) == ("killed by SIGKILL", False)
    assert (past["pid"], past["generation"]) == (before["pid"], before["generation"])
    assert past["ran"] > 0
    assert "the index was opened" in [line["message"] for line in past["lines"]]
    text = fleet.ctl("describe", "base").stdout
    assert f"(start {before['generation']}, pid {before['pid']})" in text
    assert "the index was opened" in text


def test_settings_with_their_lines(fleet: Fleet) -> None:
    lines = (fleet.deployment.directory / "agents.yaml").read_text().splitlines()
    rows = {row["name"]: row for row in described(fleet, "top")["settings"]}
    assert rows["stop_timeout"]["from"] == "defaults"
    assert lines[rows["stop_timeout"]["line"] - 1].strip() == "stop_timeout: 7"
    assert rows["port"]["from"] == "agents.yaml"
    assert lines[rows["port"]["line"] - 1].strip() == f"port: {rows['port']['value']}"
    assert rows["max_queue"]["from"] == "built in"


def test_what_is_served(fleet: Fleet) -> None:
    document = described(fleet, "top")
    served = document["served"]
    assert (served["agent"], served["model"]) == ("top", "fast-agent.passthrough")
    [server] = served["servers"]
    assert (server["name"], server["health"]["up"]) == ("tools", True)
    assert "tools__echo" in served["parts"][0]["tools"]
    assert document["depends_on"] == [{"name": "base", "state": "ready", "health": "ok"}]
    assert [one["name"] for one in described(fleet, "base")["dependents"]] == ["top"]
    assert document["process"]["pid"] == document["status"]["pid"]
    assert document["process"]["memory"] > 2**20


def test_the_configuration_is_printed_without_its_secret_and_can_be_read_again(fleet: Fleet) -> None:
    result = fleet.ctl("cat")
    assert result.returncode == 0, result.stderr
    assert "hunter22" not in result.stdout
    directory = fleet.deployment.directory
    (directory / "again.yaml").write_text(result.stdout)
    taken, again = (read_deployment(directory / name) for name in ("agents.yaml", "again.yaml"))
    top = replace(taken.agents["top"], env={"MODE": "fast"})
    assert again == replace(taken, path=directory / "again.yaml", agents={**taken.agents, "top": top})


def test_one_table_of_what_is_used(fleet: Fleet) -> None:
    result = fleet.ctl("top", "-o", "json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["supervisor"]["cpu_percent"] >= 0
    agents = {agent["name"]: agent for agent in document["agents"]}
    assert set(agents) == {"base", "top"}
    assert agents["top"]["memory"] > 2**20
    assert agents["top"]["cpu_seconds"] > 0
    assert agents["base"]["restarts"] >= 1
