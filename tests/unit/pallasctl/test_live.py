"""The live screen: what fits is shown, only what changed is written, and the terminal is left as it was."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import click
import pytest

from pallasctl.live import cut, picture, require_live_terminal
from support.fleet.terminal import Terminal, terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
import sys
from pallasctl.live import Screen
shown = 0
with Screen() as screen:
    keys = ""
    while "q" not in keys:
        if "!" in keys:
            raise RuntimeError("broken")
        shown += 1
        size = screen.size
        rows = [f"row {number} " + "\\x1b[32mgreen\\x1b[0m " * 20 for number in range(10)]
        screen.draw([f"picture {shown} of {size.columns}x{size.lines}"], rows, ["the end"], what="agent")
        keys = screen.wait(60.0)
print("left")
"""


@pytest.fixture
def running() -> Iterator[Terminal]:
    with terminal([sys.executable, "-c", PROGRAM], columns=40, lines=8) as made:
        made.until(lambda shown: shown.lines[-1:] == ["the end"])
        yield made


def is_as_before(running: Terminal) -> bool:
    modes = running.picture.modes
    return running.echoes() and modes == {"1049": False, "25": True, "7": True, "2026": False}


def test_what_fits_is_shown_and_how_much_does_not(running: Terminal) -> None:
    lines = running.picture.lines
    assert lines[0] == "picture 1 of 40x8"
    assert lines[1] == "row 0 green green green green green gre…"
    assert lines[5:] == ["row 4 green green green green green gre…", "… and 5 more agents", "the end"]
    assert not running.echoes()


def test_another_size_is_drawn_at_once_and_a_key_ends(running: Terminal) -> None:
    running.resize(60, 14)
    running.until(lambda shown: shown.lines[:1] == ["picture 2 of 60x14"] and len(shown.lines) == 12)
    running.resize(20, 3)
    running.until(lambda shown: shown.lines == ["picture 3 of 20x3", "… and 10 more agents", "the end"])
    running.type("q")
    assert running.end() == 0
    assert is_as_before(running)
    assert running.output.endswith("left\r\n")


def test_only_what_changed_is_written_again(running: Terminal) -> None:
    before = len(running.output)
    running.type("x")
    running.until(lambda shown: shown.lines[0].startswith("picture 2"))
    assert running.output[before:].count("row") == 0


@pytest.mark.parametrize(("by", "status"), [("\x03", -signal.SIGINT), ("!", 1)], ids=["Ctrl-C", "an error"])
def test_the_terminal_is_as_before_however_it_ends(running: Terminal, by: str, status: int) -> None:
    running.type(by)
    assert running.end() == status
    assert is_as_before(running)


def test_the_terminal_is_as_before_when_it_is_told_to_end(running: Terminal) -> None:
    os.kill(running.process.pid, signal.SIGTERM)
    assert running.end() == 128 + signal.SIGTERM
    assert is_as_before(running)


def test_the_terminal_is_as_before_while_it_is_suspended() -> None:
    shell = ["bash", "-m", "-c", '"$0" -c "$1"; stty -a | grep -ow -e "-*echo"; fg', sys.executable, PROGRAM]
    with terminal(shell, columns=40, lines=8) as running:
        running.until(lambda shown: shown.lines[-1:] == ["the end"])
        running.type("\x1a")
        running.until(lambda shown: shown.lines[:1] == ["picture 2 of 40x8"])
        assert "\r\necho\r\n" in running.output, "what is typed was shown"
        running.type("q")
        assert running.end() == 0
        assert is_as_before(running)


@pytest.mark.parametrize(
    ("line", "columns", "shown"),
    [
        ("plain", 5, "plain"),
        ("plain", 4, "pla…"),
        ("\x1b[32mready\x1b[0m", 5, "\x1b[32mready\x1b[0m"),
        ("\x1b[32mready\x1b[0m", 4, "\x1b[32mrea…\x1b[0m"),
        ("資料", 4, "資料"),
        ("資料", 3, "資…"),
        ("資料", 2, "…"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("any", 0, ""),
    ],
)
def test_a_line_is_cut_by_what_it_takes_on_a_terminal(line: str, columns: int, shown: str) -> None:
    assert cut(line, columns) == shown


def test_rows_give_way_first_and_then_the_foot() -> None:
    assert picture(["head"], ["1", "2"], ["foot"], 4) == ["head", "1", "2", "foot"]
    assert picture(["head"], ["1", "2"], ["foot"], 3) == ["head", "… and 2 more lines", "foot"]
    assert picture(["head"], ["1", "2"], ["foot"], 1) == ["head"]


def test_without_a_terminal_it_is_refused_with_the_way_out() -> None:
    with pytest.raises(click.UsageError, match="--watch draws on a terminal, and stdout is none; use `x`"):
        require_live_terminal("--watch", "use `x`")
