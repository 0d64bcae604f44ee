"""How streams share a loop: what one of them makes of a burst never holds up the others, nor anything else."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from fast_agent.llm.provider import streaming_timeouts
from fast_agent.llm.provider.streaming_timeouts import with_stream_idle_timeout

from pallas_worker.fastagent.current_call import CurrentCall, as_current
from pallas_worker.fastagent.streams import pacing
from pallas_worker.fastagent.streams.pacing import BUDGET, SHARE, Pace
from pallas_worker.interface.turn import TurnRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

CHUNK = BUDGET / 10
"""Seconds that each event takes, by the clock of these tests."""


def in_loop[**P](test: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    """The test, on a loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Streams:
    """Streams whose events have all come already, and a clock that only their work moves on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.iteration = 0
        self.pace = Pace(asyncio.get_running_loop(), lambda: self.now)
        self.handled: list[tuple[int, str]] = []
        """Which iteration of the loop handled an event, and of which stream."""
        self._counting = asyncio.create_task(self._count())

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.iteration += 1

    async def read(self, name: str, events: int) -> None:
        for _ in range(events):
            await self.pace.step()
            self.handled.append((self.iteration, name))
            self.now += CHUNK

    async def read_all(self, streams: int, events: int) -> None:
        await asyncio.gather(*(self.read(f"stream{i}", events) for i in range(streams)))
        self._counting.cancel()

    @property
    def most(self) -> float:
        """Seconds of work in the fullest iteration."""
        return CHUNK * max(Counter(iteration for iteration, _ in self.handled).values())


@in_loop
async def test_a_burst_leaves_the_loop_to_others_after_its_budget() -> None:
    streams = Streams()
    await streams.read_all(1, 500)
    assert len(streams.handled) == 500
    assert streams.most <= BUDGET + CHUNK


@in_loop
async def test_all_streams_together_have_one_budget() -> None:
    streams = Streams()
    await streams.read_all(100, 50)
    assert len(streams.handled) == 5000
    assert streams.most <= BUDGET + 2 * CHUNK


@in_loop
async def test_those_that_wait_go_on_in_their_order_and_for_a_share() -> None:
    streams = Streams()
    await streams.read_all(3, 60)
    turns: list[tuple[str, int]] = []
    for _, name in streams.handled:
        if turns and turns[-1][0] == name:
            turns[-1] = (name, turns[-1][1] + 1)
        else:
            turns.append((name, 1))
    fair = turns[3:63]  # after the first, which nobody had to wait for; before one of them ends
    assert [name for name, _ in fair] == [name for name, _ in fair[:3]] * 20
    assert len({name for name, _ in fair}) == 3
    assert max(events for _, events in fair) * CHUNK <= SHARE + CHUNK


@in_loop
async def test_a_stream_that_is_given_up_while_it_waits_holds_up_nobody() -> None:
    streams = Streams()
    tasks = [asyncio.create_task(streams.read(name, 100)) for name in ("one", "two", "three")]
    for _ in range(5):
        await asyncio.sleep(0)
    assert streams.handled
    tasks[0].cancel()
    tasks[1].cancel()
    async with asyncio.timeout(60):
        await tasks[2]
        await asyncio.gather(*tasks, return_exceptions=True)
    assert Counter(name for _, name in streams.handled)["three"] == 100


@in_loop
async def test_one_that_is_given_up_just_as_its_turn_comes_holds_up_nobody() -> None:
    streams = Streams()
    for event in range(200):
        tasks = [asyncio.create_task(streams.read(name, 30)) for name in ("one", "two")]
        for _ in range(event % 20):
            await asyncio.sleep(0)
        tasks[0].cancel()
        async with asyncio.timeout(60):
            await tasks[1]
        with contextlib.suppress(asyncio.CancelledError):
            await tasks[0]


class Client:
    """A provider's stream, with the method in which its client turns bytes into events."""

    def __init__(self, events: int) -> None:
        self._events = events
        self.read = 0
        self._iterator = self._make()

    async def _iter_events(self) -> AsyncIterator[int]:
        for event in range(self._events):
            self.read += 1
            yield event

    async def _make(self) -> AsyncIterator[int]:
        async for event in self._iter_events():
            yield event

    def __aiter__(self) -> AsyncIterator[int]:
        return self._iterator


class Helper:
    """A provider's helper around a stream."""

    def __init__(self, events: int) -> None:
        self._raw_stream = Client(events)

    async def __aiter__(self) -> AsyncIterator[int]:
        async for event in self._raw_stream:
            yield event


class Unknown:
    """A stream of which nothing is known but that it is one."""

    def __init__(self, events: int) -> None:
        self._events = events

    async def __aiter__(self) -> AsyncIterator[int]:
        for event in range(self._events):
            yield event


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """fast-agent's streams as a worker has them; counts how often they pass."""
    passed: list[int] = []

    class Counted(Pace):
        async def step(self) -> None:
            passed.append(1)

    owner = streaming_timeouts._IdleTimeoutAsyncStream
    monkeypatch.setattr(owner, "__init__", owner.__init__)
    monkeypatch.setattr(owner, "__anext__", owner.__anext__)
    monkeypatch.setattr(pacing, "pace", lambda: Counted(asyncio.get_running_loop()))
    monkeypatch.setattr(Client, "_iter_events", Client._iter_events)
    pacing.pace_streams()
    pacing.pace_streams()
    return passed


@pytest.mark.parametrize("kind", [Client, Helper, Unknown])
@in_loop
async def test_each_event_of_each_kind_of_stream_passes_once(paced: list[int], kind: type[Client]) -> None:
    for _ in range(2):
        paced.clear()
        stream = with_stream_idle_timeout(kind(7), idle_timeout_seconds=None)
        assert [event async for event in stream] == list(range(7))
        assert len(paced) == 7


@in_loop
async def test_nothing_is_read_while_the_caller_has_no_room(paced: list[int]) -> None:
    room = asyncio.Event()

    async def wait() -> None:
        await room.wait()

    client = Client(3)

    async def read() -> list[int]:
        with as_current(CurrentCall(TurnRequest(), lambda _: None, None, wait)):  # type: ignore[arg-type]
            return [event async for event in with_stream_idle_timeout(client, idle_timeout_seconds=0.001)]

    reading = asyncio.create_task(read())
    for _ in range(100):
        await asyncio.sleep(0)
    assert client.read == 0
    assert not paced
    room.set()
    assert await reading == [0, 1, 2]  # and what the reader took is not counted as the provider's silence
