"""Events between a turn and its response: merged, in order, bounded, and void text that nobody has read never told."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pallas_worker.http.chat.event_queue import ENOUGH, TOO_MUCH, EventQueue
from pallas_worker.interface.turn import Ignored, TakenBack, Text, ToolCalled, ToolReturned, TurnEvent

CALLED = ToolCalled("a", "1", "s", "t", {"x": 1})
RETURNED = ToolReturned("a", "1", "s", "t", ok=True)


def queue() -> EventQueue:
    def never() -> None:
        raise AssertionError("it overflows")

    return EventQueue(never)


def taken(*events: TurnEvent) -> list[TurnEvent]:
    it = queue()
    for event in events:
        it.tell(event)
    return it.take()


def test_neighbouring_pieces_of_one_text_leave_as_one() -> None:
    pieces: list[TurnEvent] = [
        Text("a", "one "),
        Text("a", ""),
        Text("a", "two"),
        CALLED,
        RETURNED,
        Text("a", "three"),
    ]
    assert taken(*pieces) == [Text("a", "one two"), CALLED, RETURNED, Text("a", "three")]


def test_texts_of_others_and_of_other_kinds_stay_apart() -> None:
    events: list[TurnEvent] = [
        Text("a", "x"),
        Text("b", "x"),
        Text("b", "x", "reasoning"),
        Text("b", "x", "other"),
        Ignored(("k",)),
    ]
    assert taken(*events) == events


def test_void_text_that_was_not_taken_is_never_told() -> None:
    assert taken(Text("a", "one"), TakenBack("a", 3)) == []
    assert taken(Text("a", "one"), TakenBack("a", 1)) == [Text("a", "on")]
    assert taken(Text("b", "one"), TakenBack("a", 2)) == [Text("b", "o")], "whoever spoke the answer"
    assert taken(Text("a", "one"), TakenBack("a", 5)) == [TakenBack("a", 2)]
    assert taken(Text("a", "x", "other"), TakenBack("b", 1, "other"))[1:] == [TakenBack("b", 1, "other")]
    assert taken(Text("a", "x"), CALLED, TakenBack("a", 1)) == [Text("a", "x"), CALLED, TakenBack("a", 1)]


@given(st.lists(st.one_of(st.text("xyz", max_size=4), st.integers(1, 6), st.none()), max_size=30))
def test_whenever_it_is_taken_the_answer_is_the_same(steps: list[str | int | None]) -> None:
    it, said, read = queue(), "", ""

    def read_on() -> str:
        text = read
        for event in it.take():
            text = text + event.text if isinstance(event, Text) else text[: -event.characters]  # type: ignore[union-attr]
        return text

    for step in steps:
        if isinstance(step, str):
            it.tell(Text("a", step))
            said += step
        elif step is None:
            read = read_on()
        elif step <= len(said):
            it.tell(TakenBack("a", step))
            said = said[:-step]
    assert read_on() == said


def test_models_wait_while_much_waits_to_be_taken() -> None:
    async def run() -> None:
        it = queue()
        await it.room()
        it.tell(Text("a", "x" * ENOUGH))
        waiting = asyncio.create_task(it.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        it.take()
        await waiting

    asyncio.run(run())


def test_what_does_not_wait_is_ended_when_far_too_much_waits() -> None:
    overflows: list[None] = []
    it = EventQueue(lambda: overflows.append(None))
    it.tell(ToolCalled("a", "1", None, "t", {"x": "y" * TOO_MUCH}))
    assert not overflows
    it.tell(RETURNED)
    assert overflows
    assert len(it.take()) == 1


def test_what_is_told_after_the_end_goes_nowhere_and_nobody_waits_for_room() -> None:
    async def run() -> None:
        it = queue()
        it.tell(Text("a", "x" * ENOUGH))
        waiting = asyncio.create_task(it.room())
        await asyncio.sleep(0)
        it.close()
        await asyncio.sleep(0)
        assert waiting.done()
        assert it.take() == [Text("a", "x" * ENOUGH)]
        for _ in range(3):
            it.tell(Text("a", "y" * TOO_MUCH))
        assert it.take() == []

    asyncio.run(run())


def test_it_can_be_waited_for() -> None:
    async def run() -> None:
        it = queue()
        await it.wait(0.001)
        assert it.take() == []
        it.tell(CALLED)
        await it.wait(60)
        assert it.take() == [CALLED]
        it.tell(RETURNED)
        it.close()
        await it.wait(60)
        assert it.closed
        assert it.take() == [RETURNED]
        await it.wait(60)

    asyncio.run(run())
