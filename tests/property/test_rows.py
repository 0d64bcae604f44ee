"""Rows of a history: whatever a client sends is taken or named, and what was told comes back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from pallas_worker.interface.chat.rows import messages_of
from pallas_worker.interface.history import MAX_NAMED, History, Row, parse_history
from pallas_worker.interface.images import Image
from pallas_worker.interface.pairing import ends_with_results, paired, pending_calls
from pallas_worker.interface.tool_calls import ToolCall
from support.data.image_data import BASE64

if TYPE_CHECKING:
    from collections.abc import Sequence

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
IDS = st.sampled_from(["a", "b", "c", ""])
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": IDS,
            "type": st.sampled_from(["function", "custom"]),
            "function": st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["tool", ""]),
                    "arguments": st.sampled_from(["{}", "", "[]", "{", "NaN"]),
                }
            ),
        }
    )
    | JSON,
    max_size=4,
)
ROWS = st.one_of(
    st.fixed_dictionaries({"role": st.just("user"), "content": st.text(max_size=3)}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.none() | st.text(max_size=3), "tool_calls": CALLS}
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": st.text(max_size=3), "tool_call_id": IDS}),
    st.dictionaries(
        st.sampled_from(["role", "content", "images", "tool_calls", "tool_call_id", "is_error", "pallas"]),
        st.sampled_from(["user", "assistant", "tool"]) | JSON,
    ),
    JSON,
)


def belongs_together(rows: Sequence[Row]) -> bool:
    """Whether each round of calls has its results, each once, right behind it, and there are no others."""
    open_calls: set[str] = set()
    for row in rows:
        if row.role == "tool":
            if row.call_id not in open_calls:
                return False
            open_calls.remove(row.call_id)
        elif open_calls:
            return False
        else:
            open_calls = {call.id for call in row.calls}
            if len(open_calls) != len(row.calls) or not (row.calls or row.content or row.images):
                return False
    return not open_calls


@given(st.lists(ROWS, max_size=12))
def test_whatever_comes_is_taken_in_its_order_or_named(value: list[Any]) -> None:
    history = paired(parse_history(value))
    assert belongs_together(history.rows)
    taken = [row.index for row in history.rows]
    assert taken == sorted(set(taken))
    named = [fault.index for fault in history.left_out]
    assert named == sorted(named)
    assert set(range(len(value))) <= {*taken, *named}
    assert paired(history) == history
    assert pending_calls(history) == ()


@given(st.lists(ROWS, max_size=12))
def test_only_the_last_calls_may_be_without_results(value: list[Any]) -> None:
    history = paired(parse_history(value), resume=True)
    pending = pending_calls(history)
    results = [Row("tool", "", call_id=id_) for id_ in pending]
    assert belongs_together([*history.rows, *results])
    assert not (pending and ends_with_results(history))


TEXT = st.text(max_size=20)
SOME_TEXT = st.text(min_size=1, max_size=20)
IMAGES = st.sampled_from([Image(data, type_) for type_, data in BASE64.items()])
ARGUMENTS = st.dictionaries(
    TEXT,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)


@st.composite
def rounds(draw: st.DrawFn) -> list[Row]:
    """A user's message, calls with their results, and the answer."""
    rows = [Row("user", draw(SOME_TEXT), tuple(draw(st.lists(IMAGES, max_size=2))))]
    ids = draw(st.lists(st.text("ab_-1", min_size=1, max_size=5), max_size=3, unique=True))
    if ids:
        calls = tuple(ToolCall(id_, "server__tool", draw(ARGUMENTS)) for id_ in ids)
        channels = draw(st.dictionaries(SOME_TEXT, st.lists(TEXT, max_size=2).map(tuple), max_size=2))
        rows.append(Row("assistant", draw(TEXT), calls=calls, channels=channels))
    for id_ in draw(st.permutations(ids)):
        parts = tuple(draw(st.lists(SOME_TEXT | IMAGES, max_size=4)))
        text = "\n".join(part for part in parts if isinstance(part, str))
        images = tuple(part for part in parts if isinstance(part, Image))
        rows.append(Row("tool", text, images, call_id=id_, is_error=draw(st.booleans()), parts=parts))
    return [*rows, Row("assistant", draw(SOME_TEXT))]


@given(st.lists(rounds(), max_size=3))
def test_rows_come_back_as_they_were_told(conversation: list[list[Row]]) -> None:
    rows = tuple(row for turn in conversation for row in turn)
    messages = json.loads(json.dumps(messages_of(rows)))
    assert paired(parse_history(messages)) == History(rows)


@given(st.integers(min_value=0, max_value=2 * MAX_NAMED), st.integers(min_value=0, max_value=2 * MAX_NAMED))
def test_no_more_than_so_many_are_named(malformed: int, orphans: int) -> None:
    orphan = {"role": "tool", "tool_call_id": "a", "content": ""}
    _, left_out, more = paired(parse_history([orphan] * orphans + [None] * malformed))
    assert len(left_out) == min(MAX_NAMED, orphans + malformed)
    assert len(left_out) + more == orphans + malformed
