"""`pallasctl wait`: what is asked, and that it waits for the supervisor, too."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from fakes.control_server import FakeControl, agent, run, serve

if TYPE_CHECKING:
    from pathlib import Path


def test_wait_for(fake: FakeControl) -> None:
    fake.answer("/v1/wait", {"done": True, "agents": [agent("research", "stopped")]})
    assert fake.run("wait", "research", "--for", "stopped", "--timeout", "7000").exit_code == 0
    (_, _, body) = fake.requests[0]
    assert body.pop("timeout") == pytest.approx(7000, abs=100), "what is left of it"
    assert body == {"agents": ["research"], "wait": True, "for": "stopped"}


def test_wait_waits_for_the_supervisor_too(tmp_path: Path) -> None:
    socket = tmp_path / "control.sock"
    results = []
    thread = threading.Thread(target=lambda: results.append(run("--socket", str(socket), "wait", "--all")))
    thread.start()
    time.sleep(0.3)
    with serve(socket, {"/v1/wait": (200, {"done": True, "agents": [agent("research")]})}):
        thread.join(60)
    assert [(result.exit_code, result.stdout) for result in results] == [(0, "research: ready (pid 4008)\n")]


@pytest.mark.parametrize(("goal", "at_least"), [("ready", 0.3), ("stopped", 0.0)])
def test_wait_without_a_supervisor(tmp_path: Path, goal: str, at_least: float) -> None:
    started = time.monotonic()
    result = run("--socket", str(tmp_path / "none"), "wait", "--all", "--for", goal, "--timeout", "0.3")
    assert result.exit_code == 1
    assert "pallas is not running here" in result.stderr
    assert at_least <= time.monotonic() - started < 60
