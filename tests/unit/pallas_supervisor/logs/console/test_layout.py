"""Columns, widths, colours: addresses stay whole, and nothing that agents write moves the cursor."""

from __future__ import annotations

import pytest

from pallas_supervisor.logs.console.layout import LEAST, MOST_LINES, Layout, columns
from pallas_supervisor.logs.console.lines import Say

ADDRESS = "https://example.org/" + "a-long-path/" * 12


@pytest.mark.parametrize("width", [1, 20, 40, 80, 140, 400])
def test_no_line_is_wider_than_the_terminal_and_addresses_are_whole(width: int) -> None:
    text = f"see {ADDRESS} for more, {'wort' * 30} und {'日本語' * 20}"
    drawn = Layout(width, colours=False, names=8).draw(
        Say(text, "warning", "warn", "research", "in 1.0 s"), "12:00:00"
    )
    assert ADDRESS in drawn
    room = max(width, 10 + 8 + 2 + 8 + 2 + LEAST)
    assert all(columns(line) <= room for line in drawn.splitlines() if ADDRESS not in line)
    assert len(drawn.splitlines()) <= MOST_LINES + 1


def test_a_path_that_is_longer_than_a_line_stays_whole() -> None:
    path = "/" + "a-long-folder/" * 12 + "agents.yaml"
    lines = Layout(80, colours=False).draw(Say(f"Pallas 1.2.3: demo, 1 agent of {path}")).splitlines()
    assert lines == ["Pallas 1.2.3: demo, 1 agent of", path]


def test_a_long_text_ends_after_some_lines() -> None:
    drawn = Layout(80, colours=False, names=8).draw(Say("word " * 5_000, "error", "bad", "research"))
    assert len(drawn.splitlines()) == MOST_LINES
    assert drawn.endswith(" …\n")


def test_what_is_hostile_is_shown_as_it_is() -> None:
    say = Say("\x1b[2J\u202etxet\n[fake] line", "error", "bad", "research", details=("| \x07bell\r",))
    assert Layout(80, colours=False, names=8).draw(say) == (
        "research  error     \\x1b[2J\\u202etxet [fake] line\n                    | \\x07bell\\r\n"
    )


def test_colours_are_around_words_and_times_alone() -> None:
    layout = Layout(80, colours=True, names=8)
    assert layout.draw(Say("http://x/", "ready", "good", "research", "in 1 s"), "12:00:00") == (
        "\x1b[2m12:00:00  \x1b[0mresearch  \x1b[32mready\x1b[0m     http://x/  \x1b[2m(in 1 s)\x1b[0m\n"
    )
    assert layout.draw(Say("ready or not", "ready", "plain", "already-ready-x")) == (
        "already…  ready     ready or not\n"
    )


def test_a_line_without_columns_and_an_empty_one() -> None:
    layout = Layout(30, colours=True, names=8)
    assert layout.draw(Say("")) == "\n"
    assert (
        layout.draw(Say("Status page: http://localhost:24200/")) == "Status page:\nhttp://localhost:24200/\n"
    )
