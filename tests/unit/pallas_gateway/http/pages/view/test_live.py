from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pallas_gateway.conversations.events import Reset, Text, ToolCall, ToolResult
from pallas_gateway.http.pages.view.live import LiveAnswer
from pallas_gateway.http.pages.view.markdown import SHOWN

if TYPE_CHECKING:
    from pallas_gateway.conversations.events import TurnEvent


class Reader:
    """A page that is told of changes, as the script has it."""

    def __init__(self) -> None:
        self.answer = LiveAnswer()
        self.pieces: list[str] = []

    def take(self, *events: TurnEvent) -> None:
        for event in events:
            self.answer.take(event)
        change = self.answer.change()
        if change is not None:
            assert change.first <= len(self.pieces)
            self.pieces = [*self.pieces[: change.first], *change.pieces]


def told_at_once(*events: TurnEvent) -> list[str]:
    reader = Reader()
    reader.take(*events)
    return reader.pieces


def test_text_grows_in_its_last_block() -> None:
    reader = Reader()
    reader.take(Text("# Ti"))
    assert reader.pieces == ["<div><h3>Ti</h3>\n</div>"]
    reader.take(Text("tle\n\nSome *wo"))
    assert reader.pieces == ["<div><h3>Title</h3>\n</div>", "<div><p>Some *wo</p>\n</div>"]
    reader.answer.take(Text("rds*"))
    change = reader.answer.change()
    assert change is not None
    assert (change.first, change.pieces) == (1, ["<div><p>Some <em>words</em></p>\n</div>"])


def test_nothing_new_is_no_change() -> None:
    answer = LiveAnswer()
    assert answer.change() is None
    answer.take(Text("a"))
    assert answer.change() is not None
    answer.take(Text("\n"))
    assert answer.change() is None


def test_a_result_changes_its_call_alone() -> None:
    reader = Reader()
    reader.take(Text("I add."), ToolCall("sums__add", {"a": 1}, "1"), ToolCall("sums__add", {"a": 2}, "2"))
    assert [("running…" in each) for each in reader.pieces] == [False, True, True]
    reader.take(ToolResult("sums__add", ok=False, id="2", text="no <b>"))
    assert "running…" in reader.pieces[1]
    assert "is-failed" in reader.pieces[2]
    assert "no &lt;b&gt;" in reader.pieces[2]


def test_of_a_text_without_end_no_reader_is_told_all() -> None:
    reader = Reader()
    reader.take(Text("a" * SHOWN), Text("b" * 5000))
    assert "a" * SHOWN in reader.pieces[0]
    assert reader.pieces[1:] == ['<div><span class="soft"> … 5,000 more characters</span></div>']
    reader.take(Text("c"), Reset(6001), Text("d"))
    assert len(reader.pieces) == 1
    assert "a" * (SHOWN - 1000) + "d" in reader.pieces[0]
    assert "b" not in reader.pieces[0]


def test_deep_arguments_are_not_laid_out() -> None:
    arguments = {"a": json.loads("[" * 9000 + "]" * 9000), "b": 1}
    (piece,) = told_at_once(ToolCall("sums__add", arguments, "1"))
    assert len(piece) < 20_000
    assert "]]], &quot;b&quot;: 1}" in piece.replace('"', "&quot;")
    (piece,) = told_at_once(ToolCall("sums__add", {"a": [1]}, "1"))
    assert "[\n" in piece


def test_what_is_taken_back_goes_also_where_it_was_settled() -> None:
    reader = Reader()
    reader.take(Text("One.\n\nTwo.\n\nThree."))
    assert len(reader.pieces) == 3
    reader.take(Reset(len("\n\nTwo.\n\nThree.")))
    assert reader.pieces == ["<div><p>One.</p>\n</div>"]
    reader.take(Reset(1000))
    assert reader.pieces == []


EVENTS = st.one_of(
    st.text(alphabet=st.sampled_from("ab \n#*`-1."), min_size=1, max_size=12).map(Text),
    st.integers(1, 10).map(Reset),
    st.sampled_from("123").map(lambda id_: ToolCall("t__x", {}, id_)),
    st.sampled_from("123").map(lambda id_: ToolResult("t__x", ok=True, id=id_)),
)


@given(st.lists(EVENTS, max_size=30))
def test_who_is_told_bit_by_bit_sees_what_who_comes_late_sees(events: list[TurnEvent]) -> None:
    reader = Reader()
    for event in events:
        reader.take(event)
    assert reader.pieces == told_at_once(*events)
