"""Where answers, notes and errors of ask and chat go: answers to stdout, all else to stderr.

Knows terminals and what makes a text safe for one; nothing of agents.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from pallas_common.problems import counted
from pallas_common.terminal_text import terminal_line, terminal_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_control.mcp.messages import Answer

_CODES = {"red": "31", "dim": "2", "plain": "0"}


def print_text(text: str) -> None:
    """A text of the agent on stdout: as it is where that is a file or a pipe, made safe where it is a terminal."""
    shown = terminal_text(text) if sys.stdout.isatty() else text
    # Half of a surrogate pair, which JSON can express, has no bytes in UTF-8.
    click.echo(shown.encode("utf-8", "backslashreplace"), nl=not shown.endswith("\n"))


def print_answer(answer: Answer) -> None:
    """The answer alone on stdout; a note on stderr of what is not text, or that there is nothing."""
    if answer.text:
        print_text(answer.text)
    if answer.images:
        note(f"(with {counted(len(answer.images), 'image')}, which `pallasctl ask -o json` gives)")
    elif not answer.text:
        note("(the agent ended without a word)")


def note(text: str, style: str = "dim") -> None:
    """A line of ours on stderr."""
    click.echo(painted(terminal_line(text), style), err=True)


def complain(message: str, details: Sequence[str] = ()) -> None:
    """What went wrong, on stderr, where the command goes on."""
    note(message, "red")
    for line in details:
        click.echo(f"  {terminal_text(line)}", err=True)


def painted(text: str, style: str) -> str:
    """The text in a style where stderr is a terminal whose user has not declined it (no-color.org)."""
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"
