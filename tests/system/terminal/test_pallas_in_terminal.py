"""`pallas` in a terminal, as a person sees it: the start, a crash, lines that repeat, Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import BIN, Fleet
from support.fleet.pty_process import PtyProcess

if TYPE_CHECKING:
    from pathlib import Path

    from support.fleet.deployment import Deployment

COMPLAINING = """
import logging
for number in range(15):
    logging.getLogger("shop").warning("order %d is late \\x1b[2J", number)
"""


def in_terminal(deployment: Deployment, *arguments: str, **env: str) -> PtyProcess:
    environment = {**Fleet(deployment).environment, **env}
    return PtyProcess([str(BIN / "pallas"), *arguments], directory=deployment.directory, env=environment)


def test_a_start_a_crash_repeating_lines_and_ctrl_c(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "deployment", "library")
    deployment.add("research", depends_on=["library"])
    module = deployment.directory / "agents/library.py"
    module.write_text(module.read_text() + COMPLAINING)
    fleet = Fleet(deployment)
    with in_terminal(deployment) as terminal:
        terminal.until(r"^Pallas \S+: test-fleet, 2 agents of .*/agents\.yaml$")
        terminal.until(
            rf"^Status page: {re.escape(f'http://localhost:{deployment.document["registry_port"]}/')}$"
        )
        for name in ("library", "research"):
            port = deployment.agents[name]["port"]
            terminal.until(rf"^{name} +ready +http://localhost:{port}/mcp  \(in [\d.]+ s\)$")
        terminal.until(r"^library +warning +order 0 is late \\x1b\[2J$")
        terminal.until(r"^2 of 2 ready in [\d.]+ s$")
        terminal.until(r"^Ctrl-C stops all\. Ask an agent: pallasctl ask research \"Hello\"$")
        pid = fleet.agent("research")["pid"]
        os.kill(pid, signal.SIGKILL)
        terminal.until(r"^[\d:]{8}  research +crashed +killed by SIGKILL; restarting .*, failure 1/5$")
        terminal.until(r"^[\d:]{8}  research +ready +\S+  \(again after [\d.]+ s\)$")
        terminal.type("\x03")
        assert terminal.wait() == 0
        terminal.until(r"^(?:[\d:]{8}  )?library +warning +… \(repeated 14 times in \d+ s\) order 14 is late")
        terminal.until(r"Stopping 2 agents \(Ctrl-C again kills what is left\)$")
        assert terminal.text.endswith("\nStopped\n")
        assert "\x1b[2J" not in terminal.raw
        assert "\x1b[32mready\x1b[0m" in terminal.raw


def test_quiet_shows_problems_alone_and_no_colours_if_they_are_declined(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "deployment", "library")
    deployment.add("broken", "does_not_import")
    with in_terminal(deployment, "--quiet", NO_COLOR="1") as terminal:
        terminal.until(r"more: pallasctl logs broken$")
        Fleet(deployment).wait("library")
        terminal.type("\x03")
        assert terminal.wait() == 0
        assert "\x1b" not in terminal.raw
        lines = terminal.text.removeprefix("^C").splitlines()
        assert lines[0].startswith(
            "broken   failed    agents/broken.py:1: ModuleNotFoundError: No module named"
        )
        assert [line for line in lines if line.startswith(("library", "Pallas", "Stop"))] == []


@pytest.mark.parametrize(("env", "begin"), [({"PALLAS_LOG_STDERR": "1"}, '{"time"'), ({}, "Pallas ")])
def test_json_is_json_in_a_terminal_too(tmp_path: Path, env: dict[str, str], begin: str) -> None:
    deployment = make_deployment(tmp_path / "deployment", "library")
    with in_terminal(deployment, **env) as terminal:
        terminal.until(r"ready")
        terminal.type("\x03")
        assert terminal.wait() == 0
        assert terminal.text.startswith(begin)
