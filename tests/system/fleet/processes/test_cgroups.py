"""A real fleet with a control group for each worker: daemons without a sign go with their own worker alone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import psutil

from support.fleet.control_groups import needs_control_groups, subtree
from support.fleet.deployment import PASSTHROUGH, make_deployment
from support.fleet.fleet import Fleet, run_to_end

if TYPE_CHECKING:
    from pathlib import Path

DAEMON = """
import subprocess
subprocess.run(
    ["setsid", "--fork", "env", "-i", "sleep", "3600"],
    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
"""


def members(group: Path) -> set[int]:
    return set(map(int, (group / "cgroup.procs").read_text().split()))


@needs_control_groups
def test_each_worker_has_a_group_and_takes_its_daemons_along(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "maker", "forked")
    module = PASSTHROUGH.format(name="maker", servers=[]) + DAEMON
    (deployment.directory / "agents" / "maker.py").write_text(module)
    deployment.add("own", python=sys.executable)
    with subtree() as above:
        root = above / "fleet"
        with Fleet(deployment, env={"PALLAS_CGROUP": str(root)}) as fleet:
            fleet.wait()
            beside = {fleet.keeper().pid, fleet.zygote().pid, fleet.spare().pid}
            assert members(root / "supervisor") == {fleet.pid, *beside}
            pids = fleet.pids()
            assert members(root / "worker-forked.1") == {pids["forked"]}
            assert members(root / "worker-own.1") == {pids["own"]}
            (daemon,) = members(root / "worker-maker.1") - {pids["maker"]}
            fleet.await_that(lambda: psutil.Process(daemon).name() == "sleep", "it is what it was to become")

            fleet.kill("forked")
            assert psutil.pid_exists(daemon), "it is not the other's"
            assert members(root / "worker-forked.2") == {fleet.pids()["forked"]}
            fleet.kill("maker")
            assert not psutil.pid_exists(daemon)
            assert len(members(root / "worker-maker.2")) == 2
            names = {path.name for path in root.iterdir() if path.is_dir()}
            assert names == {"supervisor", "worker-forked.2", "worker-own.1", "worker-maker.2"}

            with fleet.follow() as log:
                assert fleet.ctl("restart", "maker").returncode == 0, "one beside the other"
                log.until(lambda r: r.get("agent") == "maker" and r.get("replacement") == "gone")
            assert {path.name for path in root.glob("worker-maker.*")} == {"worker-maker.3"}
            assert fleet.stop() == 0
        assert not root.exists()


def test_a_group_that_cannot_be_used_is_refused_before_anything_starts(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one")
    done = run_to_end(deployment, env={"PALLAS_CGROUP": str(tmp_path)})
    assert done.returncode == 2
    assert f"PALLAS_CGROUP: {tmp_path} cannot be used" in done.stderr
    assert "or unset it" in done.stderr
    assert not list(tmp_path.glob("supervisor"))
