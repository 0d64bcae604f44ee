"""The quickstart as a newcomer meets it: agents answer, delegate, and `pallasctl` and the demo work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest
import yaml

from support.clients import ERAS, Era, call
from support.fleet.deployment import Deployment
from support.fleet.fleet import Fleet
from support.ports import free_ports
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = ROOT
QUICKSTART = REPOSITORY / "examples" / "quickstart"

LOOK_UP = '***CALL_TOOL look_up {"topic": "pallas"}'


def delegate(tool: str) -> str:
    """Let the fake model call research's tool, which calls its own."""
    return f"***CALL_TOOL research__{tool} {json.dumps({'message': LOOK_UP})}"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    directory = tmp_path_factory.mktemp("quickstart") / "deployment"
    shutil.copytree(QUICKSTART, directory, ignore=shutil.ignore_patterns("__pycache__", ".fast-agent"))
    old = ["24200", "24201", "24202", "24203"]
    ports = dict(zip(old, map(str, free_ports(4)), strict=True))
    for file in (directory / "agents.yaml", directory / "fastagent.config.yaml"):
        text = file.read_text()
        for port, free in ports.items():
            text = text.replace(port, free)
        file.write_text(text)
    document = yaml.safe_load((directory / "agents.yaml").read_text())
    with Fleet(Deployment(directory, document)) as running:
        running.wait()
        yield running


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("agent", "tool", "message", "answer"),
    [
        ("research", "send_message", LOOK_UP, "(Source: its README)"),
        (
            "research",
            "research",
            '***CALL_TOOL look_up {"topic": "cats"}',
            "The library holds nothing on cats.",
        ),
        ("engineering", "engineering", '***CALL_TOOL estimate {"tasks": 4, "hours_each": 2}', "10 h"),
        ("jarvis", "jarvis", "Good morning", "Good morning"),
        (
            "jarvis",
            "send_message",
            delegate("research"),
            "(Source: its README)",
        ),
        ("jarvis", "jarvis", delegate("send_message"), "(Source: its README)"),
    ],
)
def test_answers(fleet: Fleet, agent: str, tool: str, message: str, answer: str, era: Era) -> None:
    failed, text = anyio.run(lambda: call(fleet.deployment.url(agent), tool, era, message=message))
    assert not failed, text
    assert answer in text


def test_status_has_the_shape_that_scripts_rely_on(fleet: Fleet) -> None:
    result = fleet.ctl("status", "-o", "json")
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["deployment"] == "quickstart"
    assert document["supervisor"].keys() >= {"pid", "version", "since"}
    assert [agent["name"] for agent in document["agents"]] == ["jarvis", "research", "engineering"]
    for agent in document["agents"]:
        assert agent["state"] == "ready"
        assert psutil.pid_exists(agent["pid"])
        assert agent.keys() >= {
            "desired",
            "port",
            "restarts",
            "failures",
            "since",
            "health",
            "message",
            "last_exit",
        }


def test_every_verb_on_the_real_supervisor(fleet: Fleet) -> None:
    before = fleet.pids()
    assert fleet.ctl("wait", "--all").returncode == 0
    fleet.await_that(lambda: fleet.ctl("health").stdout.startswith("ok at "), "all probes have gone well")
    assert fleet.ctl("reload", "--dry-run").stdout == "nothing changed\n"
    assert "ready" in fleet.ctl("logs", "research", "-n", "500").stdout
    stopped = fleet.ctl("stop", "jarvis")
    assert (stopped.stdout, stopped.returncode) == ("jarvis: stopped\n", 0)
    assert fleet.ctl("status").returncode == 0
    assert fleet.ctl("status", "jarvis").returncode == 3
    assert fleet.ctl("start", "jarvis").stdout.startswith("jarvis: ready (pid ")
    assert fleet.ctl("restart", "engineering").stdout.startswith("engineering: ready (pid ")
    after = fleet.pids()
    assert after["research"] == before["research"]
    assert after["engineering"] != before["engineering"]
    unknown = fleet.ctl("restart", "nobody")
    assert unknown.returncode == 2
    assert "nobody" in unknown.stderr
    assert "research" in unknown.stderr


def test_it_writes_nothing_into_its_folder(fleet: Fleet) -> None:
    known = {"agents.yaml", "fastagent.config.yaml", "README.md", "agents"}
    ours = {"run", "log", "stderr.txt"}
    assert {path.name for path in fleet.deployment.directory.iterdir()} == known | ours


def test_the_demo(tmp_path: Path) -> None:
    stamp = Path(sys.prefix, "stamp")
    if not stamp.exists():
        pytest.skip("not run: needs the environment that scripts/test makes; scripts/demo would make another")
    base = str(free_base())
    environment = os.environ | {
        "PALLAS_VENV": sys.prefix,
        "PALLAS_DEMO_PORT_BASE": base,
        "TMPDIR": str(tmp_path),
    }
    result = subprocess.run(
        ["bash", str(REPOSITORY / "scripts" / "demo")],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "none is left" in result.stdout
    assert list(tmp_path.iterdir()) == []


def free_base() -> int:
    """Of four ports in a row that nobody uses, the first."""
    taken = {connection.laddr.port for connection in psutil.net_connections("tcp") if connection.laddr}
    return next(base for base in range(25200, 60000, 10) if taken.isdisjoint(range(base, base + 4)))
