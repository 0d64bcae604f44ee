"""`pallas up -d` and `pallas down`: what they say, their exit statuses, and what is left running."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import BIN, PATIENCE, Fleet
from support.fleet.pty_process import PtyProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.fleet.deployment import Deployment


def lives(process: psutil.Process) -> bool:
    """Whether it does; what nobody waits for is a zombie once it has ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Background:
    """A deployment that these verbs start and stop; what they leave running is stopped at the end."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.fleet = Fleet(deployment)

    def pallas(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / "pallas"), *arguments],
            cwd=self.deployment.directory,
            env=self.fleet.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def in_terminal(self, *arguments: str) -> PtyProcess:
        command = [str(BIN / "pallas"), *arguments]
        return PtyProcess(command, directory=self.deployment.directory, env=self.fleet.environment)

    @property
    def supervisor(self) -> psutil.Process:
        return psutil.Process(self.fleet.status()["supervisor"]["pid"])

    @property
    def runs(self) -> bool:
        return (self.fleet.runtime / "control.sock").exists()


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Background]:
    started = Background(make_deployment(tmp_path / "deployment", "library"))
    yield started
    started.pallas("down", "--now")


def test_it_survives_its_terminal_and_down_leaves_nothing(background: Background) -> None:
    with background.in_terminal("up", "-d") as terminal:
        assert terminal.wait() == 0
        port = background.deployment.agents["library"]["port"]
        terminal.until(rf"^library +ready +http://localhost:{port}/mcp  \(in [\d.]+ s\)$")
        terminal.until(r"^1 of 1 ready in [\d.]+ s$")
        terminal.until(r"^`pallas down` stops all\. Ask an agent: pallasctl ask library \"Hello\"$")
    supervisor = background.supervisor
    assert os.getsid(supervisor.pid) == supervisor.pid
    assert supervisor.terminal() is None
    assert {str(Path(f"/proc/{supervisor.pid}/fd/{n}").readlink()) for n in range(3)} == {os.devnull}
    everything = [supervisor, *supervisor.children(recursive=True)]
    again = background.pallas("up", "-d")
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr.startswith(f"It runs already, as process {supervisor.pid}, for ")
    assert "1 of 1 ready\n" in again.stderr
    assert not [record for record in background.fleet.records() if "reload" in record["message"]]
    down = background.pallas("down")
    assert (down.returncode, down.stdout) == (0, "")
    assert down.stderr.startswith("Stopping test-fleet, 1 agent\nStopped in ")
    assert [process for process in everything if lives(process)] == []
    down = background.pallas("down")
    assert (down.returncode, down.stderr) == (0, "test-fleet does not run: nothing to stop\n")


def test_an_agent_that_fails_is_status_1_and_the_others_go_on(background: Background) -> None:
    background.deployment.add("broken", "does_not_import")
    up = background.pallas("up", "-d")
    assert up.returncode == 1
    assert "broken   failed    agents/broken.py:1: ModuleNotFoundError" in up.stderr
    assert "1 of 2 ready in " in up.stderr
    assert "`pallas down` stops all." in up.stderr
    assert "\x1b" not in up.stderr
    assert background.fleet.agent("library")["state"] == "ready"
    background.deployment.agents.pop("broken")
    background.deployment.write()
    again = background.pallas("up", "-d")
    assert "agents.yaml changed since: `pallasctl reload` takes over what it says.\n" in again.stderr
    assert again.returncode == 1


def test_a_wrong_configuration_is_status_2_and_nothing_is_started(background: Background) -> None:
    background.deployment.document["colour"] = "blue"
    background.deployment.write()
    up = background.pallas("up", "-d")
    assert up.returncode == 2
    assert up.stderr.startswith("pallas: agents.yaml:")
    assert "colour" in up.stderr
    assert not background.runs


def test_what_keeps_the_supervisor_from_starting_is_shown(background: Background) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", background.deployment.agents["library"]["port"]))
        taken.listen()
        up = background.pallas("up", "-d")
    assert up.returncode == 1
    port = background.deployment.agents["library"]["port"]
    first, *_, last = up.stderr.splitlines()
    assert first.startswith(f"pallas: port {port} (library) is taken by ")
    assert last == "pallas: not started: the supervisor ended with status 1"
    assert not background.runs


def test_ctrl_c_ends_the_waiting_alone_and_down_now_waits_for_nobody(background: Background) -> None:
    background.deployment.add("slow", "hangs_at_import", start_timeout=600, stop_timeout=600)
    with background.in_terminal("up", "-d") as terminal:
        terminal.until(r"^library +ready ")
        terminal.type("\x03")
        assert terminal.wait() == 130
        terminal.until(r"^Not waiting any more; it goes on\. `pallas down` stops all\.$")
    assert background.fleet.agent("slow")["state"] == "starting"
    late = background.pallas("up", "-d", "--timeout", "0.1")
    assert late.returncode == 1
    assert (
        "pallas: not ready in time: slow (starting); it goes on, `pallasctl status` shows how." in late.stderr
    )
    supervisor = background.supervisor
    down = background.pallas("down", "--now")
    assert down.returncode == 0, down.stderr
    assert not lives(supervisor)


def test_where_there_is_no_deployment_none_is_stopped(background: Background, tmp_path: Path) -> None:
    elsewhere = Background(background.deployment)
    (tmp_path / "empty").mkdir()
    result = subprocess.run(
        [str(BIN / "pallas"), "down"],
        cwd=tmp_path / "empty",
        env={**elsewhere.fleet.environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith("pallas: agents.yaml: no deployment here, so none to stop; ")


def test_a_unit_is_written_once_and_another_one_is_not_overwritten(
    background: Background, tmp_path: Path
) -> None:
    background.fleet.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    unit = tmp_path / "config/systemd/user/pallas-test-fleet.service"
    shown = background.pallas("install-service", "--user", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert not unit.exists()
    written = background.pallas("install-service", "--user")
    assert written.returncode == 0, written.stderr
    assert unit.read_text() == shown.stdout
    assert f"WorkingDirectory={background.deployment.directory}\n" in shown.stdout
    first, second, *_ = written.stdout.splitlines()
    assert first == f"{unit}: written"
    assert second.endswith(
        ": systemctl --user daemon-reload && systemctl --user enable --now pallas-test-fleet"
    )
    assert "is there already, as it should be" in background.pallas("install-service", "--user").stdout
    unit.write_text(unit.read_text().replace("RestartSec=2", "RestartSec=9"))
    refused = background.pallas("install-service", "--user")
    assert refused.returncode == 1
    assert f"pallas: {unit} is there already and is not what would be written" in refused.stderr
    assert "  -RestartSec=9\n  +RestartSec=2\n" in refused.stderr
    assert "RestartSec=9" in unit.read_text()


VERBS = (
    ("pallas", "down"),
    ("pallasctl", "status"),
    ("pallasctl", "stop", "--all"),
    ("pallasctl", "restart", "--all", "--now"),
    ("pallasctl", "reload"),
    ("pallasctl", "ask", "library", "hello"),
    ("pallasctl", "chat", "library", "-m", "hello"),
    ("pallasctl", "apply", "-f", "agents.yaml"),
    ("pallasctl", "get", "all"),
    ("pallasctl", "logs"),
    ("pallasctl", "gateway", "stop"),
    ("pallasctl", "gateway", "backup", "kept.db"),
    ("pallasctl", "token", "list"),
    ("pallasctl", "audit"),
)
"""What acts on a supervisor, or says what it has."""


def test_no_verb_in_the_copy_of_a_folder_reaches_the_one_that_runs(tmp_path: Path) -> None:
    original = make_deployment(tmp_path / "original", "library")
    copy = tmp_path / "copy"
    shutil.copytree(original.directory, copy)
    with tempfile.TemporaryDirectory() as runtime:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PALLAS_")},
            "XDG_RUNTIME_DIR": runtime,
            "PALLAS_STATE_DIR": str(tmp_path / "state"),
            "PALLAS_LOG_FILE": str(tmp_path / "pallas.log"),
        }

        def run(program: str, *arguments: str, folder: Path = copy) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [str(BIN / program), *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )

        assert run("pallas", "up", "-d", folder=original.directory).returncode == 0
        try:
            before = json.loads(run("pallasctl", "status", "-o", "json", folder=original.directory).stdout)
            for program, *arguments in VERBS:
                result = run(program, *arguments)
                assert result.returncode not in (0, 2), (arguments, result.stderr)
                assert (
                    f"test-fleet runs from {original.directory}/agents.yaml, and this is {copy}/agents.yaml"
                    in (result.stderr)
                ), (arguments, result.stderr)
            for arguments in (["up", "-d"], ["check"]):
                assert str(original.directory / "agents.yaml") in run("pallas", *arguments).stderr
            named = json.loads(run("pallasctl", "status", "--deployment", "test-fleet", "-o", "json").stdout)
            assert named["supervisor"] == before["supervisor"]
            assert [each["generation"] for each in named["agents"]] == [1]

            (tmp_path / "link").symlink_to(original.directory)
            assert run("pallasctl", "status", folder=tmp_path / "link").returncode == 0
            assert "It runs already" in run("pallas", "up", "-d", folder=tmp_path / "link").stderr
            assert run("pallas", "down", "--deployment", "test-fleet").returncode == 0
            assert "does not run" in run("pallas", "down", folder=original.directory).stderr
        finally:
            run("pallas", "down", "--now", folder=original.directory)
