"""Start and stop order of a real fleet, read from the log's own times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path

# A diamond of diamonds with a chain hanging from it: twelve agents.
DEPENDS_ON = {
    "base": [],
    "left": ["base"],
    "right": ["base"],
    "middle": ["left", "right"],
    "alone": [],
    "upper": ["middle"],
    "lower": ["middle", "alone"],
    "top": ["upper", "lower"],
    "link1": ["top"],
    "link2": ["link1"],
    "link3": ["link2"],
    "roof": ["link3", "base"],
}


def test_agents_start_after_their_dependencies_and_stop_before_them(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet")
    for name, needs in reversed(DEPENDS_ON.items()):  # the file's order must not matter
        deployment.add(name, depends_on=needs)
    fleet = Fleet(deployment)
    with fleet:
        fleet.wait()
        assert fleet.stop() == 0
    times = {(r["agent"], r["state"]): r["time"] for r in fleet.transitions()}
    assert len({agent for agent, _ in times}) == len(DEPENDS_ON)
    for name, needs in DEPENDS_ON.items():
        for need in needs:
            assert times[need, "ready"] <= times[name, "starting"], (name, need)
            assert times[name, "stopped"] <= times[need, "stopping"], (name, need)
    started = [r for r in fleet.transitions() if r["state"] == "starting"]
    assert sorted(r["agent"] for r in started) == sorted(DEPENDS_ON), "each was started exactly once"


def test_a_dependency_that_failed_is_named_and_its_dependents_wait(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "bystander")
    deployment.add("needed", "does_not_import")
    deployment.add("needing", depends_on=["needed"])
    with Fleet(deployment) as fleet:
        fleet.wait("needed", until="settled")
        fleet.wait("bystander")
        waiting = fleet.agent("needing")
        assert waiting["state"] == "waiting"
        why = "agents/needed.py:1: ModuleNotFoundError: No module named 'nothing_that_exists'"
        assert waiting["message"].startswith(f"waiting for needed (failed: {why}")
        (deployment.directory / "agents" / "needed.py").write_text(
            (deployment.directory / "agents" / "bystander.py").read_text()
        )
        assert fleet.ctl("start", "needed").returncode == 0
        fleet.wait("needing")
