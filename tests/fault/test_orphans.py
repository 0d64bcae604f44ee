"""Whatever agents leave behind, however they hide it, ends with their worker, with the supervisor or at the next start.

One fleet, started again and again: what was left by each way to get away from a worker, and by each way to be killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psutil
import pytest

from support.faults.orders import Orders
from support.fleet.control_groups import needs_control_groups, subtree
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

UNSIGNED = {"env -i", "env -i, closed descriptors", "forked, closed descriptors", "another's sign"}
"""What bears no sign of the deployment: without control groups, only the keeper knows whose it is."""

PATIENCE = 60.0


class Yard:
    """A fleet of three agents: one leaves strays, one holds its interpreter, one is stopped."""

    def __init__(self, directory: Path, env: Mapping[str, str]) -> None:
        deployment = make_deployment(directory)
        self._orders = Orders(deployment)
        patient = {"liveness_interval": 60}
        for name in ("leaves", "holds", "stands"):
            self._orders.add(name, **patient)
        self.fleet = Fleet(deployment, env=env)
        self.strays: dict[str, psutil.Process] = {}
        """Those that were left last, by the way that each went."""
        self._every_stray: list[psutil.Process] = []

    def fill(self, *, unruly: bool = True) -> None:
        """Start the fleet, or find it started, and have its agents leave strays."""
        self.fleet.wait()
        left = self._orders.ask("leaves", "leave strays")
        self.strays = {way: psutil.Process(pid) for way, pid in left.items()}
        self._every_stray += self.strays.values()
        if unruly:
            pids = self.fleet.pids()
            self._orders.tell("holds", "hold the interpreter")
            os.kill(pids["stands"] or 0, signal.SIGSTOP)

    def everything(self) -> list[psutil.Process]:
        """All processes but the supervisor."""
        below = [process for process in self.fleet.processes() if process.pid != self.fleet.pid]
        return list({process.pid: process for process in (*below, *self.strays.values())}.values())

    def kill(self, *others: psutil.Process) -> list[psutil.Process]:
        """SIGKILL the supervisor and others at once; all processes that there were."""
        assert self.fleet.process is not None
        there = self.everything()
        for pid in (*(other.pid for other in others), self.fleet.pid):
            os.kill(pid, signal.SIGKILL)
        self.fleet.process.wait()
        return there

    def clear(self) -> None:
        """End what may have outlived its fleet, also of earlier starts: without control groups, what is unsigned."""
        for process in self._every_stray:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def alive(self) -> set[str]:
        """The ways by which a stray lives."""
        return {
            way for way, process in self.strays.items() if process.is_running() and not is_zombie(process)
        }


def is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(params=["without control groups", pytest.param("control groups", marks=needs_control_groups)])
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    with ExitStack() as stack:
        env = {}
        if request.param == "control groups":
            env["PALLAS_CGROUP"] = str(stack.enter_context(subtree()))
        yard = Yard(tmp_path / "fleet", env)
        try:
            with yard.fleet:
                yield yard
        finally:
            yard.clear()


def test_nothing_outlives_what_it_belongs_to(yard: Yard) -> None:
    fleet = yard.fleet

    yard.fill()
    _, alive = psutil.wait_procs(yard.kill(), timeout=PATIENCE)
    assert not alive, "the supervisor was killed, and nobody started another one"

    fleet.start()
    yard.fill()
    there = yard.kill(fleet.zygote())
    fleet.start()
    left = [process for process in there if process.is_running() and not is_zombie(process)]
    assert not left, "the zygote was killed as well, and the next supervisor serves already"

    yard.fill()
    yard.kill(fleet.keeper())
    grouped = [yard.strays[way] for way in ("popen", "multiprocessing")]
    _, alive = psutil.wait_procs(grouped, timeout=PATIENCE)
    assert not alive, "the worker itself ends what is in its group"
    fleet.start()
    allowed = set() if "PALLAS_CGROUP" in fleet.environment else UNSIGNED
    assert yard.alive() <= allowed, "not even the keeper was spared"

    yard.fill(unruly=False)
    fleet.kill("leaves")
    assert not yard.alive(), "their worker was killed"

    yard.fill(unruly=False)
    assert fleet.stop() == 0
    assert not yard.alive(), "the supervisor was stopped"
