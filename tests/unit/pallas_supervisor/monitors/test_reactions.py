"""Memory against its limit, and what becomes of workers that take too much of it or stop beating."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pallas_supervisor.lifecycle.states import OUT_OF_MEMORY, Exit, WorkerId
from pallas_supervisor.monitors.memory import MemoryUse, Verdict
from pallas_supervisor.processes.linux import procfs
from support.ports import free_ports
from support.supervisor.rig import Rig, rig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1024**2


def judged(*used: int, serving: bool = True) -> list[Verdict]:
    """The verdicts on one that takes so much when it becomes ready, and so much at each look from then on."""
    memory = MemoryUse(1000)
    memory.settle(used[0])
    return [memory.judge(amount, serving=serving) for amount in used]


@pytest.mark.parametrize(
    ("used", "verdicts"),
    [
        ((500, 799, 999, 1000), "fine fine grown over"),
        ((500, 800, 900, 600, 900), "fine grown fine fine fine"),
        ((850, 500, 900), "cramped fine fine"),
        ((1000,), "over"),
        ((500, 1200, 1200), "fine over over"),
    ],
    ids=["grows", "said once", "cramped from the start", "at once", "until it is gone"],
)
def test_verdicts(used: tuple[int, ...], verdicts: str) -> None:
    assert " ".join(judged(*used)) == verdicts


def test_one_that_does_not_serve_is_only_kept_below_its_limit() -> None:
    assert judged(500, 900, 1000, serving=False) == [Verdict.FINE, Verdict.FINE, Verdict.OVER]


def test_one_that_has_grown_before_the_first_look_was_not_cramped_from_the_start() -> None:
    memory = MemoryUse(1000)
    memory.settle(500)
    assert memory.judge(850, serving=True) is Verdict.GROWN


def test_what_a_process_takes_is_what_no_file_backs() -> None:
    grows = f"import sys; held = bytearray(64 * {MIB}); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-ISc", grows], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        used = procfs.memory(process.pid)
        assert used is not None
        assert 64 * MIB < used < 84 * MIB
        process.kill()
        process.wait()
        assert procfs.memory(process.pid) is None


def on_rig(directory: Path, ports: list[int], do: Callable[[Rig], None], **fields: Any) -> Rig:
    async def run() -> Rig:
        async with rig(directory, {"research": {"port": ports[0], **fields}}) as moved:
            moved.manager.engine.start(["research"])
            moved.come_up("research")
            do(moved)
            return moved

    return asyncio.run(run())


@pytest.fixture
def ports() -> list[int]:
    return free_ports(1)


def restarts(moved: Rig) -> dict[str, float]:
    """The restarts that are counted, by reason."""
    return {
        sample.labels["reason"]: sample.value
        for family in text_string_to_metric_families(moved.manager.metrics.render("")[0].decode())
        for sample in family.samples
        if sample.name == "pallas_worker_restarts_total" and sample.value
    }


WORKER = WorkerId("research", 1)


def test_only_the_worker_that_serves_is_judged(tmp_path: Path, ports: list[int]) -> None:
    def do(moved: Rig) -> None:
        monitors = moved.manager.monitors
        assert monitors.allowed_misses(WORKER) == 4
        assert monitors.allowed_misses(WorkerId("research", 2)) == 0
        assert monitors.allowed_misses(WorkerId("nobody", 1)) == 0
        moved.end("research", Exit(status=1))
        moved.manager.engine.start(["research"])
        assert moved.states() == {"research": "starting"}
        assert monitors.allowed_misses(WorkerId("research", 2)) == 0, "not before it is ready"

    on_rig(tmp_path, ports, do, liveness_misses=4)


def test_a_lost_worker_is_killed_and_says_why(tmp_path: Path, ports: list[int]) -> None:
    def do(moved: Rig) -> None:
        moved.manager.monitors.lost(WORKER, "no heartbeat for 30 s")
        assert moved.states() == {"research": "killing"}
        assert moved.manager.status.why("research") == "no heartbeat for 30 s"
        assert ("kill", "research", 1) in moved.world.took()

    on_rig(tmp_path, ports, do)


def test_a_worker_that_has_grown_is_replaced_while_it_serves(
    tmp_path: Path, ports: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    def do(moved: Rig) -> None:
        memory = MemoryUse(512 * MIB)
        memory.settle(200 * MIB)
        verdict = memory.judge(430 * MIB, serving=True)
        moved.manager.monitors.judged(WORKER, verdict, memory)
        assert moved.states() == {"research": "ready"}
        assert ("spawn", "research", 2) in moved.world.took()
        moved.come_up("research")
        assert restarts(moved) == {"memory": 1.0}

    on_rig(tmp_path, ports, do, memory_limit="512MiB")
    assert "takes 430 MiB, more than 80 % of its memory_limit, 512 MiB: it is being replaced" in caplog.text


@pytest.mark.parametrize("second", [False, True])
def test_one_that_takes_more_than_its_limit_is_killed_for_it(
    tmp_path: Path, ports: list[int], caplog: pytest.LogCaptureFixture, second: bool
) -> None:
    def do(moved: Rig) -> None:
        worker = WorkerId("research", 2 if second else 1)
        if second:
            moved.operations.restart(["research"])
            moved.appear("research")
        memory = MemoryUse(256 * MIB)
        moved.world.took()
        moved.manager.monitors.judged(worker, memory.judge(300 * MIB, serving=not second), memory)
        assert moved.world.took() == [("kill", *worker)]
        assert moved.world.reasons == [OUT_OF_MEMORY]
        assert moved.states() == {"research": "ready"}, "until it has ended"

    on_rig(tmp_path, ports, do, memory_limit="256MiB")
    assert "takes 300 MiB and may take 256 MiB: killed" in caplog.text


def test_one_that_has_no_room_from_the_start_is_told_of_and_left(
    tmp_path: Path, ports: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    def do(moved: Rig) -> None:
        moved.world.took()
        memory = MemoryUse(256 * MIB)
        memory.settle(220 * MIB)
        moved.manager.monitors.judged(WORKER, memory.judge(220 * MIB, serving=True), memory)
        assert moved.world.took() == []

    on_rig(tmp_path, ports, do, memory_limit="256MiB")
    assert "takes 220 MiB from the start" in caplog.text
    assert "raise the limit" in caplog.text


def test_an_end_for_want_of_memory_is_counted_and_shown(tmp_path: Path, ports: list[int]) -> None:
    def do(moved: Rig) -> None:
        moved.end("research", Exit(signal=9, reason=OUT_OF_MEMORY))
        (status,) = moved.manager.status.entries()
        assert status["last_exit"] == "killed by SIGKILL (out of memory)"
        moved.manager.engine.start(["research"])
        assert restarts(moved) == {"oom": 1.0}

    on_rig(tmp_path, ports, do)
