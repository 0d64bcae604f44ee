"""Where log lines meet: bounded rings, subscribers that lag, and records from any thread."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import TYPE_CHECKING

from pallas_common.logs.setup import RecordFormatter
from pallas_common.secrets.values import KnownSecrets
from pallas_supervisor.logs import router as module
from pallas_supervisor.logs.router import (
    RING_BYTES,
    RING_LENGTH,
    SUPERVISOR,
    Line,
    LogRouter,
    LogRouterHandler,
)
from pallas_supervisor.logs.subscribers import MOST_LINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest


def line(number: int, text: str = "") -> Line:
    time = f"2026-01-31T12:00:00.{number:06d}Z"
    return Line(time, (text or f"line {number}").encode())


def texts(lines: list[bytes]) -> list[str]:
    return [text.decode() for text in lines]


def test_a_record_is_written_kept_and_offered() -> None:
    written: list[bytes] = []
    router = LogRouter(written.append)
    subscriber = router.tail.subscribe([])
    router.put("research", {"time": "2026-01-31T12:00:00.000000Z", "message": "up", "level": "INFO"})
    assert written == router.newest((), 10) == [asyncio.run(subscriber.next())]
    assert json.loads(written[0])["message"] == "up"
    assert not written[0].endswith(b"\n")


def test_the_newest_lines_of_all_agents_come_in_the_order_of_time() -> None:
    router = LogRouter(lambda _: None)
    for number in (1, 4, 5):
        router.put_line("research", line(number))
    for number in (2, 3, 6):
        router.put_line(SUPERVISOR, line(number))
    assert texts(router.newest((), 4)) == ["line 3", "line 4", "line 5", "line 6"]
    assert texts(router.newest(("research",), 2)) == ["line 4", "line 5"]
    assert texts(router.newest((), 10, line(5).time)) == ["line 5", "line 6"]
    assert router.newest((), 0) == []
    assert router.newest(("jarvis",), 10) == []
    router.forget("research")
    assert texts(router.newest((), 10)) == ["line 2", "line 3", "line 6"]


def test_a_ring_is_bounded_in_lines() -> None:
    router = LogRouter(lambda _: None)
    for number in range(RING_LENGTH + 10):
        router.put_line("research", line(number))
    kept = texts(router.newest((), RING_LENGTH * 2))
    assert len(kept) == RING_LENGTH
    assert kept[0] == "line 10"


def test_a_ring_is_bounded_in_bytes() -> None:
    router = LogRouter(lambda _: None)
    for number in range(100):
        router.put_line("research", line(number, "x" * (RING_BYTES // 10)))
    assert len(router.newest((), 1_000)) == 10
    router.put_line("research", line(101, "x" * (RING_BYTES * 2)))
    assert len(router.newest((), 1_000)) == 1, "the newest line is kept however long it is"


def test_a_follower_gets_what_it_follows() -> None:
    router = LogRouter(lambda _: None)
    subscriber = router.tail.subscribe(["research"])
    router.put_line("jarvis", line(1))
    router.put_line("research", line(2))
    assert asyncio.run(subscriber.next()) == b"line 2"


def test_what_a_worker_says_or_an_agent_prints_holds_no_secret_that_is_known() -> None:
    router = LogRouter(lambda _: None, KnownSecrets(["hunter2-hunter2"]))
    router.secrets.add(["of-one-agent"])
    router.put("research", {"message": "printed hunter2-hunter2 of-one-agent", "level": "INFO"})
    assert json.loads(router.newest((), 1)[0])["message"] == "printed [redacted] [redacted]"


def test_lines_below_a_level_neither_count_nor_follow() -> None:
    router = LogRouter(lambda _: None)
    subscriber = router.tail.subscribe([], logging.WARNING)
    for number, level in enumerate(("DEBUG", "warning", "INFO", "CRITICAL", "LOUD", None)):
        router.put("research", {"time": line(number).time, "level": level, "message": str(number)})
    said = [json.loads(text)["message"] for text in router.newest((), 10, level=logging.WARNING)]
    assert said == ["1", "3"]
    assert [json.loads(text)["message"] for text in router.newest((), 1, level=logging.DEBUG)] == ["5"]
    newest = router.newest((), 2, line(1).time, logging.INFO)
    assert [json.loads(text)["message"] for text in newest] == ["4", "5"]
    assert [json.loads(asyncio.run(subscriber.next()))["message"] for _ in range(2)] == ["1", "3"]


def test_the_supervisors_own_records_have_their_level() -> None:
    async def run() -> None:
        router = LogRouter(lambda _: None)
        handler = LogRouterHandler(router, asyncio.get_running_loop())
        handler.setFormatter(RecordFormatter({}))
        for level in ("INFO", "ERROR"):
            handler.emit(logging.makeLogRecord({"msg": "m", "levelname": level}))
        assert len(router.newest((), 10)) == 2
        assert [json.loads(text)["level"] for text in router.newest((), 10, level=logging.ERROR)] == ["ERROR"]

    asyncio.run(run())


def test_a_reader_that_always_has_something_to_read_leaves_the_loop_to_others() -> None:
    """The end of its connection is news that comes over the loop; without that it would be written to for ever."""

    async def run() -> None:
        router = LogRouter(lambda _: None)
        subscriber = router.tail.subscribe([])
        for number in range(1_000):
            router.put_line("research", line(number))
        gone = asyncio.Event()
        asyncio.get_running_loop().call_soon(gone.set)
        read = 0
        while not gone.is_set():
            await subscriber.next()
            read += 1
        assert read <= 2

    asyncio.run(run())


def test_a_reader_that_was_too_slow_is_told_in_the_one_log_format() -> None:
    async def run() -> None:
        router = LogRouter(lambda _: None)
        subscriber = router.tail.subscribe([])
        for number in range(MOST_LINES + 7):
            router.put_line("research", line(number))
        told = json.loads(await subscriber.next())
        assert told["message"] == "7 lines left out here: the reader was too slow"
        assert told["level"] == "WARNING"

    asyncio.run(run())


def test_records_of_this_thread_come_in_at_once_and_those_of_others_on_the_loop() -> None:
    async def run() -> None:
        router = LogRouter(lambda _: None)
        handler = LogRouterHandler(router, asyncio.get_running_loop())
        handler.setFormatter(RecordFormatter({}))

        def emit(message: str) -> None:
            record = logging.makeLogRecord(
                {"msg": message, "levelname": "INFO", "name": "pallas", "agent": "jarvis"}
            )
            handler.emit(record)

        emit("here")
        assert [json.loads(text)["message"] for text in router.newest(("jarvis",), 10)] == ["here"]
        thread = threading.Thread(target=emit, args=("there",))
        thread.start()
        thread.join()
        assert len(router.newest((), 10)) == 1
        await asyncio.sleep(0)
        assert [json.loads(text)["message"] for text in router.newest(("jarvis",), 10)] == ["here", "there"]

    asyncio.run(run())


def test_a_record_that_cannot_be_formatted_takes_nobody_down(capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        router = LogRouter(lambda _: None)
        handler = LogRouterHandler(router, asyncio.get_running_loop())
        handler.emit(logging.makeLogRecord({"msg": "%d", "args": ("no number",)}))
        assert router.newest((), 10) == []

    asyncio.run(run())
    assert "Logging error" in capsys.readouterr().err


def test_only_as_much_is_sorted_as_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pallasctl logs` must not hold up a fleet of fifty agents with full rings."""
    router = LogRouter(lambda _: None)
    for agent in range(50):
        for number in range(200):
            router.put_line(f"a{agent}", line(number))
    seen: list[int] = []

    def counted(lines: Iterable[Line], key: Callable[[Line], str]) -> list[Line]:
        made = sorted(lines, key=key)
        seen.append(len(made))
        return made

    monkeypatch.setattr(module, "sorted", counted, raising=False)
    assert len(router.newest((), 10)) == 10
    assert seen == [500]
