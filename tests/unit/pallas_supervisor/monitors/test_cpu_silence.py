"""When silence counts against a worker: only time in which it could have run, and in which somebody listened."""

from __future__ import annotations

import pytest

from pallas_supervisor.monitors.cpu_silence import Silence
from pallas_supervisor.processes.linux.procfs import Usage

INTERVAL = 5.0


class Watched:
    """A worker's silence on a clock of the test's, looked at whenever it is due."""

    def __init__(self) -> None:
        self.now = 100.0
        self.usage = Usage(10.0, 1.0)
        self.record = Silence(INTERVAL, self.now, self.usage)

    def beat(self) -> None:
        self.record.beat(INTERVAL, self.now, self.usage)

    def look(self, state: str = "S", *, ran: float = 0.0, waited: float = 0.0, late: float = 0.0) -> float:
        self.now = self.record.due + late
        self.usage = Usage(self.usage.running + ran, self.usage.waiting + waited)
        self.record.look(self.now, state, self.usage)
        return self.record.silence


@pytest.mark.parametrize("state", ["S", "T"])
def test_a_loop_that_sleeps_or_is_stopped_is_lost_after_its_misses(state: str) -> None:
    watched = Watched()
    looks = 0
    while not watched.record.is_lost(6):
        watched.look(state)
        looks += 1
    assert looks == 6
    assert watched.now - 100.0 == 6.5 * INTERVAL


def test_a_loop_that_computes_is_lost_as_well() -> None:
    watched = Watched()
    for _ in range(6):
        watched.look("R", ran=4.9, waited=0.0)
    assert watched.record.silence == pytest.approx(6 * 4.9, abs=0.01)
    watched.look("R", ran=5.0)
    assert watched.record.is_lost(6)


def test_a_worker_that_waits_for_a_cpu_is_not_lost() -> None:
    watched = Watched()
    for _ in range(20):
        watched.look("R", ran=0.5, waited=4.4)  # got a tenth of a CPU, and asked for more
    assert not watched.record.is_lost(6)
    assert watched.record.silence == pytest.approx(10.0, abs=1.5)


def test_a_wait_for_a_cpu_that_goes_on_counts_though_the_kernel_does_not_yet() -> None:
    watched = Watched()
    for _ in range(100):
        assert watched.look("R") == 0.0


def test_a_loop_that_computes_on_a_crowded_machine_is_lost_later() -> None:
    watched = Watched()
    looks = 0
    while not watched.record.is_lost(6):
        watched.look("R", ran=1.25, waited=3.75)
        looks += 1
    assert 20 <= looks <= 26


@pytest.mark.parametrize("state", ["D", "t"])
def test_a_wait_for_a_disk_or_a_debugger_is_nobodys_silence(state: str) -> None:
    watched = Watched()
    for _ in range(100):
        assert watched.look(state) == 0.0


def test_what_the_supervisor_slept_through_does_not_count() -> None:
    watched = Watched()
    assert watched.look(late=1.0) > 0.0
    silent = watched.record.silence
    assert watched.look(late=600.0) == silent, "stopped, suspended or starved: it has not listened"
    assert watched.look() == silent + INTERVAL


def test_a_heartbeat_ends_the_silence() -> None:
    watched = Watched()
    for _ in range(5):
        watched.look()
    assert not watched.record.is_lost(6)
    watched.beat()
    assert watched.record.silence == 0.0
    assert watched.record.due == watched.now + 1.5 * INTERVAL
    for _ in range(5):
        watched.look()
    assert not watched.record.is_lost(6)


def test_one_miss_is_enough_if_one_is_allowed_but_a_late_heartbeat_is_none() -> None:
    watched = Watched()
    for _ in range(10):
        watched.now += 1.4 * INTERVAL
        assert watched.now < watched.record.due
        watched.beat()
    watched.look()
    assert watched.record.is_lost(1)


def test_time_that_is_excused_counts_for_nothing() -> None:
    watched = Watched()
    watched.look()
    silent = watched.record.silence
    watched.now += 1000.0
    watched.record.excuse(watched.now, watched.usage)
    assert watched.record.silence == silent
    assert watched.look() == silent + INTERVAL
