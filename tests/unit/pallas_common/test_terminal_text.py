"""What others have written, on its way to a terminal."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from pallas_common.terminal_text import terminal_line, terminal_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b[31mred", r"\x1b[2J\x1b[31mred"),
        ("\x9b2J", r"\x9b2J"),
        ("evil\u202egnp.exe", r"evil\u202egnp.exe"),
        ("a\u2066b\u2069c\u200f", r"a\u2066b\u2069c\u200f"),
        ("one\u2028two\u2029three\x85four\rfive\x0bsix", r"one\u2028two\u2029three\x85four\rfive\x0bsix"),
        ("half \ud83d of one", r"half \ud83d of one"),
        ("hidden \U000e0041 tag", r"hidden \U000e0041 tag"),
        ("\x00\x7f\x08", r"\x00\x7f\x08"),
    ],
)
def test_what_a_terminal_would_obey_or_hide_is_an_escape(text: str, shown: str) -> None:
    assert terminal_text(text) == shown
    assert terminal_line(text) == shown


def test_only_one_of_the_two_keeps_lines_and_tabs() -> None:
    assert terminal_text("one\n\ttwo") == "one\n\ttwo"
    assert terminal_line("one\n\ttwo") == r"one\n\ttwo"


@pytest.mark.parametrize(
    "text", ["plain", "naïve – “words”", "日本語", "שלום", "می‌خواهم", "👩‍👩‍👧", "C:\\new", ""]
)
def test_what_people_write_stays(text: str) -> None:
    assert terminal_text(text) == terminal_line(text) == text


def test_no_control_character_and_nothing_bidirectional_is_left() -> None:
    every = terminal_line("".join(map(chr, range(sys.maxunicode + 1))))
    left = {character for character in every if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}}
    assert not left
    formatting = {*("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")}
    assert not {character for character in every if unicodedata.bidirectional(character) in formatting}
    assert len(every.splitlines()) == 1
    every.encode()
