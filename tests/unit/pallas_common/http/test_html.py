"""Markup: whatever is given is text or an attribute, and no text is endless."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pallas_common.http.html import MAX_TEXT, join, tag
from pallas_common.terminal_text import terminal_line
from support.documents.browser.markup import Read


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=MAX_TEXT))
def test_whatever_is_said_is_text_and_whatever_is_an_attribute_is_one(said: str) -> None:
    read = Read(tag("p", said, title=said))
    assert read.tags == [("p", {"title": terminal_line(said)})]
    assert read.said == terminal_line(said)


def test_what_would_be_hidden_is_seen_and_no_text_is_endless() -> None:
    assert tag("p", "a\u202eb\x00\x1b[31m\n\ufeffc ä") == r"<p>a\u202eb\x00\x1b[31m\n\ufeffc ä</p>"
    assert len(tag("p", "x" * 10**6)) == MAX_TEXT + len("<p></p>")
    assert len(tag("p", "\x00" * 10**6)) <= 4 * MAX_TEXT + len("<p></p>")
    assert tag("path", d="M0 0" * MAX_TEXT).count("M0 0") == MAX_TEXT, "drawings are whole"


def test_markup_is_nested_as_it_is() -> None:
    assert tag("p", tag("b", "a & b"), ["<", None], class_="x", hidden=True, aria_label=None, x=1.5) == (
        '<p class="x" hidden x="1.5"><b>a &amp; b</b>&lt;</p>'
    )
    assert join(tag("meta", charset="utf-8"), "&") == '<meta charset="utf-8">&amp;'
