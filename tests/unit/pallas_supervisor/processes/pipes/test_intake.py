"""Workers' pipes: reports, records and raw output, whole and torn, in floods, and at a worker's end. Real pipes."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pallas_common.logs.records import record_line
from pallas_common.protocol.reports import (
    FailedReport,
    HealthReport,
    ReadyReport,
    Report,
    StageReport,
    encode_report,
)
from pallas_common.times import timestamp
from pallas_supervisor.lifecycle.states import WorkerId
from pallas_supervisor.logs.router import LogRouter
from pallas_supervisor.processes.pipes import intake as module
from pallas_supervisor.processes.pipes.intake import SLICE, Intake
from pallas_supervisor.processes.pipes.line_reader import LONGEST_OUTPUT, LOOKAHEAD
from pallas_supervisor.processes.pipes.lines import BURST, COUNTED_LENGTH, LINES_PER_SECOND
from support.supervisor.processes import PATIENCE, nothing_leaked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RESEARCH, JARVIS = WorkerId("research", 1), WorkerId("jarvis", 1)


class Bench:
    """An intake with one open worker, on a clock that stands still unless moved."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reports: list[tuple[str, int, Report]] = []
        self.lines: list[bytes] = []
        self.router = LogRouter(self.lines.append)
        self.pids: dict[WorkerId, int] = {}
        self.take: Callable[[WorkerId, Report], None] = self.note
        self.intake = Intake(
            lambda worker_id, report: self.take(worker_id, report),
            self.router,
            self.pids.get,
            lambda: self.now,
        )
        self.changed = asyncio.Event()
        self.report, self.records, self.output = self.intake.open(RESEARCH)
        worker = self.intake._workers[RESEARCH]
        self.worker = worker

    def note(self, worker_id: WorkerId, report: Report) -> None:
        self.reports.append((*worker_id, report))
        self.changed.set()

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def messages(self) -> list[str]:
        return [str(record["message"]) for record in self.logged()]

    def drain(self) -> None:
        """Take in all that was written, in however many slices of the processor's time."""
        self.intake.drain(RESEARCH)
        while any(pipe.source.lines for pipe in self.worker.pipes):
            self.intake.drain(RESEARCH)


def held(pipe: Any) -> int:
    """Bytes of a line that has not ended."""
    return len(pipe.source._rest)


def count_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each look at the clock of CPU time count for a millisecond; there is at least one for each line."""
    clock = itertools.count(0.0, 0.001)
    monkeypatch.setattr(module, "time", SimpleNamespace(thread_time=lambda: next(clock)))


async def most_in_a_turn(bench: Bench, lines: int) -> int:
    """The most lines that are taken in one turn of the loop, until so many have been."""
    seen = [0]
    async with asyncio.timeout(PATIENCE):
        while seen[-1] < lines:
            await asyncio.sleep(0)
            seen.append(len(bench.lines))
    return max(after - before for before, after in itertools.pairwise(seen))


def on_bench(do: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        with nothing_leaked():
            bench = Bench()
            try:
                async with asyncio.timeout(PATIENCE):
                    await do(bench)
            finally:
                for descriptor in (bench.report, bench.records, bench.output):
                    os.close(descriptor)
                bench.intake.close(RESEARCH)
                await bench.intake.finish()

    asyncio.run(run())


REPORTS: list[Report] = [
    StageReport(stage="importing"),
    ReadyReport(model="passthrough", capabilities=None),
    FailedReport(message="ImportError: no module named x", permanent=True),
    HealthReport(status="degraded", timestamp="now", message="no library"),
]


def test_reports_come_by_themselves_and_in_order() -> None:
    async def do(bench: Bench) -> None:
        os.write(bench.report, b"".join(map(encode_report, REPORTS)))
        while len(bench.reports) < len(REPORTS):
            await bench.changed.wait()
            bench.changed.clear()
        assert bench.reports == [("research", 1, report) for report in REPORTS]

    on_bench(do)


def test_torn_lines_are_put_together() -> None:
    async def do(bench: Bench) -> None:
        for byte in encode_report(REPORTS[0]):
            os.write(bench.report, bytes([byte]))
            bench.drain()
        assert [report for _, _, report in bench.reports] == [REPORTS[0]]

    on_bench(do)


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"kind": "unheard of"}\n', b"[]\n", b"\xff\n", b"\n"])
def test_what_is_no_report_is_told_and_passed_over(line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def do(bench: Bench) -> None:
        os.write(bench.report, line + encode_report(REPORTS[0]))
        bench.drain()
        assert len(bench.reports) == 1
        assert [record.message.split(":")[0] for record in caplog.records] == ["research"]

    on_bench(do)


def test_records_go_through_and_raw_output_becomes_a_record() -> None:
    async def do(bench: Bench) -> None:
        record = {
            "time": timestamp(time.time()),
            "level": "ERROR",
            "logger": "pallas.worker",
            "message": "oh",
            "agent": "research",
            "pid": 42,
            "generation": 1,
            "port": 8201,
        }
        os.write(bench.records, record_line(record) + b"Traceback (most recent call last):\n{broken\n")
        os.write(bench.output, "grüß Gott\r\n\n\xff".encode("latin-1") + b"\n[1, 2]\n")
        bench.drain()
        assert bench.logged()[0] == record
        assert bench.messages()[1:] == [
            "Traceback (most recent call last):",
            "{broken",
            "gr�� Gott",
            "�",
            "[1, 2]",
        ]
        raw = bench.logged()[-1]
        assert (raw["level"], raw["logger"], raw["agent"], raw["generation"]) == (
            "INFO",
            "pallas.output",
            "research",
            1,
        )

    on_bench(do)


def test_a_line_without_end_is_cut_and_never_collected() -> None:
    async def do(bench: Bench) -> None:
        written = 0
        while written < 40 * LONGEST_OUTPUT:
            written += os.write(bench.output, b"x" * LONGEST_OUTPUT)
            bench.drain()
            assert max(map(held, bench.worker.pipes)) <= LONGEST_OUTPUT + LOOKAHEAD
        assert len(bench.lines) >= 10
        assert max(map(len, bench.messages())) <= LONGEST_OUTPUT
        bench.intake.close(RESEARCH)
        assert "".join(bench.messages()) == "x" * written

    on_bench(do)


def test_the_last_words_of_a_worker_are_kept() -> None:
    async def do(bench: Bench) -> None:
        os.write(bench.output, b"Segmentation fault")
        bench.drain()
        assert bench.lines == []
        bench.intake.close(RESEARCH)
        assert bench.messages() == ["Segmentation fault"]
        bench.intake.close(RESEARCH)
        bench.drain()

    on_bench(do)


def test_the_last_words_of_a_worker_cannot_be_those_of_another_process() -> None:
    async def do(bench: Bench) -> None:
        bench.pids[RESEARCH] = 42
        bench.drain()  # at its end
        bench.pids.clear()
        os.write(bench.records, record_line({"message": "oh", "pid": 1}))
        bench.intake.close(RESEARCH)
        [record] = bench.logged()
        assert (record["pid"], record["pid_"]) == (42, 1)

    on_bench(do)


def test_a_flood_is_read_on_and_costs_lines_that_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def do(bench: Bench) -> None:
        for _ in range(BURST // 100 + 30):
            os.write(bench.output, b"line\n" * 100)
            bench.drain()
        assert len(bench.lines) == BURST
        assert bench.worker.dropped == 3_000
        bench.now += 0.75
        os.write(bench.output, b"after\n")
        bench.drain()
        assert bench.messages()[-1] == "after"
        assert "3000 log lines dropped" in caplog.text
        assert bench.worker.dropped == 0

    with caplog.at_level(logging.WARNING):
        on_bench(do)


def test_a_flood_leaves_the_loop_to_others_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    count_looks(monkeypatch)

    async def do(bench: Bench) -> None:
        written = [os.write(end, b"x\n" * 300) // 2 for end in (bench.output, bench.records)]
        assert await most_in_a_turn(bench, sum(written)) <= SLICE / 0.001

    on_bench(do)


def test_lines_that_come_at_once_from_many_leave_the_loop_to_others_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count_looks(monkeypatch)

    async def do(bench: Bench) -> None:
        ends = [bench.intake.open(WorkerId(f"agent{number}", 1)) for number in range(20)]
        bench.now += 60  # of calm, after which lines are taken as they come
        for _, _, output in ends:
            os.write(output, b"x\n")
        assert await most_in_a_turn(bench, len(ends)) <= SLICE / 0.001
        for end in itertools.chain.from_iterable(ends):
            os.close(end)
        for number in range(20):
            bench.intake.close(WorkerId(f"agent{number}", 1))
        await bench.intake.finish()

    on_bench(do)


def test_a_flood_of_one_worker_lets_the_lines_of_others_through() -> None:
    async def do(bench: Bench) -> None:
        ends = bench.intake.open(JARVIS)
        os.write(bench.report, b"nonsense\n" * 50_000)
        os.write(ends[2], b"here\n")
        async with asyncio.timeout(PATIENCE):
            while not bench.lines:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert bench.intake.unreadable["research"] < 50_000
        for end in ends:
            os.close(end)
        bench.intake.close(JARVIS)
        await bench.intake.finish()

    on_bench(do)


def test_what_waits_for_its_turn_is_neither_lost_nor_out_of_order() -> None:
    async def do(bench: Bench) -> None:
        os.write(bench.output, b"".join(b"%d\n" % number for number in range(1_000)))
        while not bench.lines:  # noqa: ASYNC110
            await asyncio.sleep(0)
        os.write(bench.output, b"1000\n1001")
        bench.drain()
        bench.intake.close(RESEARCH)
        await bench.intake.finish()
        assert bench.messages() == [str(number) for number in range(1_002)]

    on_bench(do)


def test_a_flood_beyond_what_is_allowed_is_counted_to_the_line() -> None:
    async def do(bench: Bench) -> None:
        bench.worker.allowance = 0.0
        os.write(bench.output, b"\n".join([b"line"] * 30_000) + b"\nbegun")
        bench.drain()
        assert (bench.lines, bench.worker.dropped) == ([], 30_000)
        bench.now += 1.0
        os.write(bench.output, b" and ended\n")
        bench.drain()
        assert bench.messages()[-1] == "begun and ended"

    on_bench(do)


def test_a_line_without_end_is_not_collected_while_lines_are_dropped() -> None:
    async def do(bench: Bench) -> None:
        bench.worker.allowance = 0.0
        for _ in range(40):
            os.write(bench.output, b"x" * LONGEST_OUTPUT)
            bench.drain()
            assert max(map(held, bench.worker.pipes)) <= LONGEST_OUTPUT + LOOKAHEAD
        assert bench.worker.dropped > 10

    on_bench(do)


def test_what_is_no_report_is_told_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def do(bench: Bench) -> None:
        os.write(bench.report, b"nonsense\n" * 150)
        bench.drain()
        assert len(caplog.records) == 1
        assert bench.intake.unreadable == {"research": 150}

    on_bench(do)


def test_long_lines_count_as_several() -> None:
    async def do(bench: Bench) -> None:
        line = b"x" * (COUNTED_LENGTH * 9) + b"\n"
        for _ in range(BURST // 10 + 50):
            os.write(bench.output, line)
            bench.drain()
        assert len(bench.lines) == BURST // 10
        bench.now += 1.0
        for _ in range(LINES_PER_SECOND):
            os.write(bench.output, line)
            bench.drain()
        assert len(bench.lines) == BURST // 10 + LINES_PER_SECOND // 10

    on_bench(do)


def test_drops_are_told_at_the_end_at_the_latest(caplog: pytest.LogCaptureFixture) -> None:
    async def do(bench: Bench) -> None:
        bench.worker.allowance = 0.0
        os.write(bench.output, b"one\ntwo\n")
        bench.drain()
        bench.intake.close(RESEARCH)
        assert "research: 2 log lines dropped, more than 2000 a second came" in caplog.messages

    on_bench(do)


def test_reports_are_never_dropped() -> None:
    async def do(bench: Bench) -> None:
        bench.worker.allowance = 0.0
        os.write(bench.report, encode_report(REPORTS[0]))
        bench.drain()
        assert len(bench.reports) == 1

    on_bench(do)


def test_a_writer_that_is_gone_is_not_looked_at_any_more() -> None:
    async def run() -> None:
        with nothing_leaked():
            intake = Intake(lambda *_: None, LogRouter(lambda _: None))
            ends = intake.open(RESEARCH)
            for end in ends:
                os.close(end)
            loop = asyncio.get_running_loop()
            pipes = intake._workers[RESEARCH].pipes
            watched = vars(loop)["_selector"].get_map()  # no other list has what a loop watches
            while any(pipe.source.descriptor in watched for pipe in pipes):  # noqa: ASYNC110
                await asyncio.sleep(0)
            intake.close(RESEARCH)

    asyncio.run(run())


@pytest.mark.parametrize("left", [0, 1, 2])
def test_pipes_that_cannot_all_be_made_are_none(left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, remaining = os.pipe, left

    def limited() -> tuple[int, int]:
        nonlocal remaining
        if remaining == 0:
            raise OSError(24, "Too many open files")
        remaining -= 1
        return real()

    async def run() -> None:
        with nothing_leaked():
            intake = Intake(lambda *_: None, LogRouter(lambda _: None))
            monkeypatch.setattr(os, "pipe", limited)
            with pytest.raises(OSError, match="Too many open files"):
                intake.open(RESEARCH)
            assert intake._workers == {}

    asyncio.run(run())


def test_a_second_opening_replaces_the_first() -> None:
    async def do(bench: Bench) -> None:
        again = bench.intake.open(RESEARCH)
        os.write(again[0], encode_report(REPORTS[0]))
        bench.drain()
        assert len(bench.reports) == 1
        for descriptor in again:
            os.close(descriptor)

    on_bench(do)


def test_nothing_that_a_worker_writes_keeps_the_next_line_from_being_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = [
        b'{"kind":"health","status":"ok","timestamp":"now","downstreams":[[1]]}',
        b"[" * 60_000,
        b'{"kind":"heartbeat","interval":NaN}',
        b"\x00" * 200_000,
        b'{"kind":"failed","message":"\\ud800","permanent":false}',
    ]

    async def do(bench: Bench) -> None:
        for line in [*lines, encode_report(REPORTS[0])]:
            os.write(bench.report, line + b"\n")
            os.write(bench.records, line + b"\n")
            bench.drain()
        bench.intake.close(RESEARCH)
        await bench.intake.finish()
        assert [report for _, _, report in bench.reports] == [
            FailedReport(message="?", permanent=False),
            REPORTS[0],
        ]
        assert len(caplog.records) == 1
        assert all(record["agent"] == "research" for record in bench.logged())

    on_bench(do)


def test_a_handler_that_fails_is_told_once_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def do(bench: Bench) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("a defect")

        bench.take = fail
        os.write(bench.report, encode_report(REPORTS[0]) * 3)
        bench.drain()
        bench.take = bench.note
        os.write(bench.report, encode_report(REPORTS[0]))
        bench.drain()
        assert len(bench.reports) == 1
        [told] = caplog.records
        assert told.exc_info is not None
        assert bench.intake.unreadable["research"] == 3

    on_bench(do)


def test_a_secret_is_not_cut_in_two_by_the_length_of_a_line() -> None:
    secret = "hunter2-" + "Zq7" * 30

    async def do(bench: Bench) -> None:
        bench.router.secrets.add([secret])
        for shift in range(0, 2 * len(secret), 7):
            os.write(
                bench.output,
                b"x" * (LONGEST_OUTPUT - len(secret) - 40 + shift) + secret.encode() + b"y" * 9_000,
            )
            os.write(bench.output, b"\n")
            bench.drain()
        bench.intake.close(RESEARCH)
        await bench.intake.finish()
        said = "".join(bench.messages())
        assert "[redacted]" in said
        assert not any(secret[at : at + 12] in said for at in range(len(secret) - 12))

    on_bench(do)


def test_what_a_dead_worker_has_left_is_taken_in_slices_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count_looks(monkeypatch)

    async def do(bench: Bench) -> None:
        os.write(bench.output, b"".join(b"%d\n" % number for number in range(500)))
        os.write(bench.report, encode_report(REPORTS[0]))
        bench.intake.close(RESEARCH)
        assert len(bench.reports) == 1, "reports come first"
        assert len(bench.lines) < 10
        await bench.intake.finish()
        assert bench.messages() == [str(number) for number in range(500)]

    on_bench(do)
