"""Conversations that are too long: what goes first, and what never goes apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pallas_worker.calls.shortening import shortened
from pallas_worker.interface.history import History, Row
from pallas_worker.interface.tool_calls import ToolCall
from pallas_worker.interface.turn import TurnRequest


def turn(number: int, *, tools: int = 0) -> list[Row]:
    calls = tuple(ToolCall(f"c{number}-{index}", "t", {}) for index in range(tools))
    results = [Row("tool", "r", call_id=call.id) for call in calls]
    asked = [Row("assistant", "", calls=calls), *results] if calls else []
    return [Row("user", f"q{number}"), *asked, Row("assistant", f"a{number}")]


def asks(rows: list[Row], message: str = "now") -> TurnRequest:
    return TurnRequest(message=message, history=History(tuple(rows)))


def questions(request: TurnRequest) -> list[str]:
    return [row.content for row in request.history.rows if row.role == "user"]


def test_the_older_half_goes_first_and_then_the_rest() -> None:
    less = shortened(asks([row for number in range(3) for row in turn(number)]))
    assert less is not None
    assert (questions(less.request), less.turns) == (["q2"], 2)
    last = shortened(less.request)
    assert last is not None
    assert (last.request.history.rows, last.turns) == ((), 1)
    assert last.request.message == "now"
    assert shortened(last.request) is None


def test_a_turn_that_is_gone_on_with_stays() -> None:
    rows = [*turn(0), *turn(1, tools=2)[:-1]]
    less = shortened(asks(rows, ""))
    assert less is not None
    assert less.request.history.rows == tuple(rows[2:])
    assert shortened(less.request) is None


@given(st.lists(st.integers(0, 3), max_size=12), st.booleans())
def test_a_call_and_its_result_stay_together(tools: list[int], leads: bool) -> None:
    rows = [Row("assistant", "Welcome.")] if leads else []
    rows += [row for number, some in enumerate(tools) for row in turn(number, tools=some)]
    request = asks(rows)
    while (less := shortened(request)) is not None:
        assert less.turns > 0
        assert len(less.request.history.rows) < len(request.history.rows)
        request = less.request
        kept = request.history.rows
        assert kept == tuple(rows[len(rows) - len(kept) :])
        assert not kept or kept[0].role == "user"
        called = {call.id for row in kept for call in row.calls}
        assert called == {row.call_id for row in kept if row.role == "tool"}
