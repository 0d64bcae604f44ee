"""An upgrade from version 0.3 under a real systemd: no connection is refused and no call fails."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from support.fleet.deployment import make_deployment
from support.fleet.systemd_machine import UNIT, Machine, require_machine
from support.load.steady_clients import Question, SteadyClients
from support.repository import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from support.fleet.deployment import Deployment

RELEASE = "82a09b55190ee4c37e2d533c456de23acd58cd79"
"""The commit that 0.3.0 was."""


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """The tree of 0.3.0, from the history of this repository."""
    command = ["git", "archive", RELEASE]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    if archive.returncode != 0:
        pytest.skip("not run: needs the history of the repository, not its newest commit alone")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
        tree.extractall(tmp_path / "released", filter="data")
    return tmp_path / "released"


def test_clients_do_not_notice_the_upgrade(released: Path, tmp_path: Path) -> None:
    require_machine()
    made: list[Deployment] = []

    def prepare(root: Path) -> None:
        deployment = make_deployment(root / "srv/pallas", "library")
        deployment.add("research", depends_on=["library"])
        group = (root / "srv/pallas").stat().st_gid
        for path in (root / "srv/pallas").rglob("*"):
            shutil.chown(path, "root", group)
            path.chmod(0o750 if path.is_dir() else 0o640)
        made.append(deployment)

    (tmp_path / "machine").mkdir()
    with Machine(tmp_path / "machine", prepare, released) as machine:
        (deployment,) = made
        machine.run("systemctl", "start", UNIT)
        machine.run("pallasctl", "wait", "--all", "--timeout", "60")
        assert "0.3.0" in machine.run("pallasctl", "status", "-o", "wide").stdout
        questions = [Question(deployment.document["registry_port"])]
        questions += [Question.to_agent(agent["port"]) for agent in deployment.agents.values()]
        clients = SteadyClients(questions)
        machine.on_network(clients.start)
        try:
            clients.until_more(3)
            machine.install(ROOT)
            machine.run("systemctl", "daemon-reload")
            machine.run("systemctl", "restart", UNIT)
            clients.until_more(3)
        finally:
            clients.stop()
        assert clients.failures == []
        machine.run("pallasctl", "wait", "--all", "--timeout", "60")
        assert "0.3.0" not in machine.run("pallasctl", "status", "-o", "wide").stdout
