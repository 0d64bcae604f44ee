"""A text in pieces of which some is taken back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pallas_gateway.conversations.events import take_back


@given(st.lists(st.text(max_size=5)), st.integers(0, 30))
def test_the_end_of_a_text_goes(pieces: list[str], characters: int) -> None:
    text = "".join(pieces)
    take_back(pieces, characters)
    assert "".join(pieces) == text[: max(len(text) - characters, 0)]


def test_the_beginning_of_a_long_text_is_not_copied_again() -> None:
    pieces = ["a" * 1_000_000]
    take_back(pieces, 1)
    first = pieces[0]
    take_back(pieces, 1)
    assert pieces[0] is first
    assert len("".join(pieces)) == 999_998
