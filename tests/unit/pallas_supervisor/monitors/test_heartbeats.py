"""Heartbeats of real processes: frozen loops are noticed, and what the machine or the supervisor does is not blamed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.lifecycle.states import WorkerId
from pallas_supervisor.monitors.heartbeats import HeartbeatMonitor
from pallas_supervisor.processes.linux import procfs
from support.supervisor.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKER = WorkerId("research", 1)
INTERVAL = 0.1
MISSES = 3

BEATS = f"import time\nwhile True:\n    print('beat', flush=True)\n    time.sleep({INTERVAL})"
SLEEPS = "import time; print('beat', flush=True); time.sleep(3600)"
COMPUTES = "print('beat', flush=True)\nwhile True: pass"
WORKS = f"""
import time
while True:
    print('beat', flush=True)
    time.sleep({INTERVAL})
    enough = time.thread_time() + 0.02
    while time.thread_time() < enough: pass
"""
HOG = "import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"

TIED = "import ctypes; ctypes.CDLL(None).prctl(1, 9)\n"
"""Ends a process with the one that has started it, however that ends: PR_SET_PDEATHSIG, SIGKILL."""


class Ward:
    """One process whose lines are its heartbeats, watched by a `HeartbeatMonitor` on the running loop."""

    def __init__(self, process: subprocess.Popen[bytes], misses: int = MISSES) -> None:
        self.process = process
        self.misses = misses
        self.liveness = HeartbeatMonitor(self)
        self.message: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.gaps = [asyncio.get_running_loop().time()]
        assert process.stdout is not None
        self.news = asyncio.Event()
        self.pipe = process.stdout.fileno()
        os.set_blocking(self.pipe, False)
        asyncio.get_running_loop().add_reader(self.pipe, self.read)

    def read(self) -> None:
        if os.read(self.pipe, 4096):
            self.gaps.append(asyncio.get_running_loop().time())
            self.news.set()
            self.liveness.beat(WORKER, self.process.pid, INTERVAL)

    async def beats(self, count: int) -> None:
        """Wait for so many more."""
        for _ in range(count):
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), PATIENCE)

    def silence(self) -> float:
        """Seconds since the last one."""
        return asyncio.get_running_loop().time() - self.gaps[-1]

    def longest_gap(self) -> float:
        times = [*self.gaps, asyncio.get_running_loop().time()]
        return max(after - before for before, after in itertools.pairwise(times))

    def allowed_misses(self, worker: WorkerId) -> int:
        assert worker == WORKER
        return self.misses

    def take_in(self, _worker: WorkerId) -> None:
        with contextlib.suppress(BlockingIOError):
            self.read()

    def lost(self, worker: WorkerId, message: str) -> None:
        assert worker == WORKER
        self.message.set_result(message)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.pipe)
        self.liveness.close()


@contextlib.contextmanager
def running(source: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-ISc", TIED + source], stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


async def until_lost(process: subprocess.Popen[bytes]) -> str:
    ward = Ward(process)
    try:
        return await asyncio.wait_for(ward.message, PATIENCE)
    finally:
        ward.close()


@pytest.mark.parametrize("source", [SLEEPS, COMPUTES], ids=["sleeps", "computes"])
def test_a_blocked_loop_is_noticed(source: str) -> None:
    with running(source) as process:
        assert asyncio.run(until_lost(process)) == "no heartbeat for 0.3 s"


def test_a_stopped_process_is_noticed() -> None:
    async def watch(process: subprocess.Popen[bytes]) -> str:
        ward = Ward(process)
        await ward.beats(3)
        assert not ward.message.done()
        process.send_signal(signal.SIGSTOP)
        try:
            return await asyncio.wait_for(ward.message, PATIENCE)
        finally:
            ward.close()

    with running(BEATS) as process:
        assert asyncio.run(watch(process)) == "no heartbeat for 0.3 s"


def test_one_that_is_not_judged_is_never_lost() -> None:
    async def watch(process: subprocess.Popen[bytes]) -> None:
        ward = Ward(process, misses=0)
        await asyncio.sleep(4 * MISSES * INTERVAL)
        assert not ward.message.done()
        ward.misses = MISSES
        assert await asyncio.wait_for(ward.message, PATIENCE), "from now on it is"
        ward.close()

    with running(SLEEPS) as process:
        asyncio.run(watch(process))


def test_what_is_forgotten_is_not_watched() -> None:
    async def watch(process: subprocess.Popen[bytes]) -> None:
        ward = Ward(process)
        await ward.beats(1)
        ward.liveness.forget(WORKER)
        ward.liveness.forget(WORKER)
        before = len(ward.gaps)
        await asyncio.sleep(3 * MISSES * INTERVAL)
        assert len(ward.gaps) == before
        assert not ward.message.done()
        ward.close()

    with running(SLEEPS) as process:
        asyncio.run(watch(process))


def test_a_supervisor_that_slept_does_not_blame_the_worker() -> None:
    async def watch(process: subprocess.Popen[bytes]) -> None:
        ward = Ward(process)
        await ward.beats(2)
        time.sleep(3 * MISSES * INTERVAL)  # noqa: ASYNC251 - the loop itself is what stands still
        await ward.beats(5)
        assert ward.longest_gap() > 2 * MISSES * INTERVAL
        assert not ward.message.done()
        ward.close()

    with running(BEATS) as process:
        asyncio.run(watch(process))


def test_a_worker_that_gets_no_cpu_is_not_lost() -> None:
    """Beside a process that leaves it next to nothing of the only CPU that it may use, whatever else is busy."""

    async def starved(ward: Ward) -> None:
        """Until it has been silent for twice as long as would lose it, and wants to run."""
        wants_to_run = False
        while not wants_to_run or ward.silence() < 2 * MISSES * INTERVAL:
            await asyncio.sleep(INTERVAL / 2)
            ward.take_in(WORKER)
            wants_to_run = procfs.state(ward.process.pid) == "R"

    async def watch(process: subprocess.Popen[bytes]) -> None:
        ward = Ward(process)
        await ward.beats(2)
        cpu = max(os.sched_getaffinity(0))
        os.sched_setaffinity(process.pid, {cpu})
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        with running(HOG.format(cpu=cpu)):
            await asyncio.wait_for(starved(ward), PATIENCE)
            assert not ward.message.done()
        await ward.beats(1)
        assert not ward.message.done()
        ward.close()

    with running(WORKS) as process:
        asyncio.run(watch(process))


def test_a_worker_that_cannot_be_judged_keeps_none_from_being_judged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lost: list[WorkerId] = []

    class Judge:
        def allowed_misses(self, worker: WorkerId) -> int:
            if worker.name == "broken":
                raise RuntimeError("a defect")
            return MISSES

        def take_in(self, worker: WorkerId) -> None:
            pass

        def lost(self, worker: WorkerId, _message: str) -> None:
            lost.append(worker)
            judged.set()

    async def watch(process: subprocess.Popen[bytes]) -> None:
        liveness = HeartbeatMonitor(Judge())
        for name in ("broken", "research"):
            liveness.beat(WorkerId(name, 1), process.pid, INTERVAL)
        await asyncio.wait_for(judged.wait(), PATIENCE)
        liveness.close()

    judged = asyncio.Event()
    with running(SLEEPS) as process:
        asyncio.run(watch(process))
    assert lost == [WORKER]
    assert [record.getMessage() for record in caplog.records] == ["broken: its heartbeats cannot be judged"]
