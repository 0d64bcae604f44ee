"""What has happened in a turn, as those see it who follow: from the beginning, from a place, slowly."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_gateway.conversations.events import Final, Position, Reset, Text, ToolCall, TurnEvent
from pallas_gateway.conversations.log import TurnLog

pytestmark = pytest.mark.anyio

TURN = "0123456789abcdef"
EVENTS = st.lists(
    st.one_of(
        st.text(max_size=5).map(Text),
        st.integers(1, 9).map(Reset),
        st.sampled_from([ToolCall("a", {}, "1"), Final(3)]),
    ),
    max_size=30,
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def all_of(log: TurnLog, after: Position | None = None) -> list[tuple[Position, TurnEvent]]:
    return [each async for each in log.events(after)]


def joined(events: list[TurnEvent]) -> list[TurnEvent]:
    """Texts that follow each other as one, empty ones left out."""
    found: list[TurnEvent] = []
    for event in events:
        if isinstance(event, Text) and found and isinstance(last := found[-1], Text):
            found[-1] = Text(last.delta + event.delta)
        elif not isinstance(event, Text) or event.delta:
            found.append(event)
    return found


@given(EVENTS, st.data())
def test_from_any_place_exactly_the_rest_comes(events: list[TurnEvent], data: st.DataObject) -> None:
    async def follow() -> None:
        log = TurnLog()
        seen: list[tuple[Position, TurnEvent]] = []
        following = asyncio.create_task(all_of(log))
        for event in events:
            log.tell(event)
            if data.draw(st.booleans()):
                await asyncio.sleep(0)
        log.close()
        seen = await following
        assert joined([event for _, event in seen]) == joined(events)
        for index, (position, _) in enumerate(seen):
            told = Position.parse(position.text(TURN), TURN)
            rest = [event for _, event in await all_of(log, told)]
            assert joined(rest) == joined([event for _, event in seen[index + 1 :]])

    asyncio.run(follow())


async def test_who_is_slow_gets_what_was_missed_as_one_piece() -> None:
    log = TurnLog()
    for piece in ("one ", "two ", "three"):
        log.tell(Text(piece))
    log.close()
    assert await all_of(log) == [(Position(0, 13), Text("one two three"))]
    assert await all_of(log, Position(0, 4)) == [(Position(0, 13), Text("two three"))]


async def test_who_keeps_up_gets_each_piece_when_it_comes() -> None:
    log = TurnLog()
    following = log.events()
    for piece in ("a", "b"):
        log.tell(Text(piece))
        assert (await anext(following))[1] == Text(piece)


@pytest.mark.parametrize(
    "text", [None, "", "1.2", "0123456789abcdef.1", "another.3.4", "0123456789abcdef.-1.0", "x" * 5000]
)
def test_an_id_of_another_turn_is_the_beginning(text: str | None) -> None:
    assert Position.parse(text, TURN) == Position(0, 0)


async def test_a_place_that_there_is_not_yet_is_waited_for_and_loses_nothing() -> None:
    log = TurnLog()
    log.tell(Text("a"))
    log.close()
    assert await all_of(log, Position(7, 3)) == []


async def test_silence_is_told_and_ends_with_the_next_event() -> None:
    log = TurnLog()
    following = log.batches(silence=0.001)
    assert await anext(following) == []
    log.tell(Text("a"))
    log.tell(Reset(1))
    assert await anext(following) == [(Position(0, 1), Text("a")), (Position(2, 0), Reset(1))]
    assert await anext(following) == []
    log.close()
    assert [each async for each in following] == []
