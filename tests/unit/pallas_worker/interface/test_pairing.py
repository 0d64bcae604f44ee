"""Calls without results and results without calls: left out, and named."""

from __future__ import annotations

from typing import Any

import pytest

from pallas_worker.interface.history import LeftOut, Row, parse_history
from pallas_worker.interface.pairing import ends_with_results, paired, pending_calls

USER = {"role": "user", "content": "hello"}


def calls(*ids: str, content: str | None = None, **fields: Any) -> dict[str, Any]:
    tool_calls = [{"id": id_, "type": "function", "function": {"name": "t"}} for id_ in ids]
    return {"role": "assistant", "content": content, "tool_calls": tool_calls, **fields}


def result(id_: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": f"of {id_}"}


def short(row: Row) -> str:
    """A row in a word: its role's first letter, and its calls or the call that it answers."""
    return row.role[0] + "".join(call.id for call in row.calls) + row.call_id


@pytest.mark.parametrize(
    ("value", "kept", "left_out"),
    [
        ([USER, calls("1", "2"), result("2"), result("1"), USER], ["u", "a12", "t2", "t1", "u"], []),
        (
            [USER, calls("1"), USER],
            ["u", "u"],
            [(1, "row", "tool_calls without a result: '1'")],
        ),
        (
            [calls("1", "2", content="Look"), result("2")],
            ["a2", "t2"],
            [(0, "calls", "tool_calls without a result: '1'")],
        ),
        (
            [calls("1", content="Look"), USER, result("1")],
            ["a", "u"],
            [
                (0, "calls", "tool_calls without a result: '1'"),
                (2, "row", "tool_call_id '1' is that of no call of the assistant's row before it"),
            ],
        ),
        (
            [result("1"), USER],
            ["u"],
            [(0, "row", "tool_call_id '1' is that of no call of the assistant's row before it")],
        ),
        (
            [calls("1"), result("1"), result("1"), result("2")],
            ["a1", "t1"],
            [
                (2, "row", "there is a result of '1' already"),
                (3, "row", "tool_call_id '2' is that of no call of the assistant's row before it"),
            ],
        ),
        # Some models number their calls anew in each round.
        (
            [calls("1"), result("1"), calls("1"), result("1")],
            ["a1", "t1", "a1", "t1"],
            [],
        ),
        (
            [calls("1", "1"), result("1")],
            ["a1", "t1"],
            [(0, "calls", "tool_calls[1].id is that of another call of this row")],
        ),
        (
            [calls("1"), {"role": "tool", "tool_call_id": 1}, USER],
            ["u"],
            [
                (0, "row", "tool_calls without a result: '1'"),
                (1, "row", "tool_call_id must be a string of 1 to 256 characters"),
            ],
        ),
    ],
)
def test_what_has_no_counterpart_is_left_out(
    value: list[Any], kept: list[str], left_out: list[tuple[int, Any, str]]
) -> None:
    history = paired(parse_history(value))
    assert [short(row) for row in history.rows] == kept
    assert history.left_out == tuple(LeftOut(index, reason, part) for index, part, reason in left_out)


def test_state_goes_with_the_calls_that_it_speaks_of() -> None:
    state = {"channels": {"reasoning": ["x"]}}
    both = [calls("1", "2", pallas=state), result("1"), result("2")]
    assert paired(parse_history(both)).rows[0].channels == {"reasoning": ("x",)}
    assert paired(parse_history(both[:2])).rows[0].channels == {}


@pytest.mark.parametrize(
    ("value", "kept", "pending"),
    [
        ([USER, calls("1", "2")], ["u", "a12"], ("1", "2")),
        ([USER, calls("1", "2"), result("2")], ["u", "a12", "t2"], ("1",)),
        ([USER, calls("1"), result("1")], ["u", "a1", "t1"], ()),
        ([calls("1"), calls("2")], ["a2"], ("2",)),
        ([calls("1"), USER], ["u"], ()),
        ([], [], ()),
    ],
)
def test_a_turn_that_is_resumed_keeps_its_last_calls(
    value: list[Any], kept: list[str], pending: tuple[str, ...]
) -> None:
    history = paired(parse_history(value), resume=True)
    assert [short(row) for row in history.rows] == kept
    assert pending_calls(history) == pending


def test_results_at_the_end_are_answered() -> None:
    assert ends_with_results(paired(parse_history([USER, calls("1"), result("1")])))
    for value in ([], [USER], [calls("1"), result("1"), USER], [result("1")]):
        assert not ends_with_results(paired(parse_history(value)))
