"""What happens in a turn, shown as it happens: the answer on stdout, all else dim on stderr.

Knows terminals and the events of turns; nothing of who answers. What models and tools say is made safe for a terminal
character by character, so that it does not matter where a stream parts it.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

import click

from pallas_common.problems import counted, shortened
from pallas_common.terminal_text import terminal_text
from pallasctl.text import one_line
from pallasctl.verbs.talk.backends.backend import Aside, Doing, Reset, Result, Text, ToolCall, ToolResult
from pallasctl.verbs.talk.terminal.output import note, print_text

if TYPE_CHECKING:
    from collections.abc import Generator

    from pallasctl.verbs.talk.backends.backend import Happened
    from pallasctl.verbs.talk.terminal.status_line import StatusLine

_LONGEST_CALL = 300
_LONGEST_RESULT = 200
"""Characters of what is shown of a call and of a result."""


class Answering(Protocol):
    """Where the text of an answer goes."""

    def add(self, delta: str) -> None:
        """One more piece."""

    def take_back(self, characters: int) -> None:
        """So many characters are void."""

    def pause(self) -> None:
        """Something else is about to be written on the terminal."""

    def end(self) -> None:
        """It is over: the rest of it is written."""

    def give_up(self) -> None:
        """There will be no more, and it is no answer."""


class LiveText:
    """On a terminal, as it comes."""

    def __init__(self) -> None:
        self._is_in_line = False
        self._length = 0

    def add(self, delta: str) -> None:
        """Write it at once."""
        if not delta:
            return
        self._length += len(delta)
        self._is_in_line = not delta.endswith("\n")
        click.echo(terminal_text(delta).encode("utf-8", "backslashreplace"), nl=False)

    def take_back(self, characters: int) -> None:
        """Say so, as what is on a terminal cannot be unwritten once it has scrolled."""
        self.pause()
        everything = characters >= self._length
        self._length = max(0, self._length - characters)
        note(
            "[the text above is void: the answer begins anew]"
            if everything
            else f"[the last {counted(characters, 'character')} above are void: the answer goes on anew]"
        )

    def pause(self) -> None:
        """Begin a line."""
        if self._is_in_line:
            click.echo()
            self._is_in_line = False

    def end(self) -> None:
        """Begin a line, and count anew."""
        self.pause()
        self._length = 0

    def give_up(self) -> None:
        """What is written stays."""
        self.end()


class WholeText:
    """Where it cannot be taken back, in a pipe or a file: once it is whole."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, delta: str) -> None:
        """Keep it."""
        self.text += delta

    def take_back(self, characters: int) -> None:
        """Forget it."""
        self.text = self.text[:-characters]

    def pause(self) -> None:
        """Nothing is in the way."""

    def end(self) -> None:
        """Write it."""
        if self.text:
            print_text(self.text)
        self.text = ""

    def give_up(self) -> None:
        """Nothing is written."""
        self.text = ""


def answering() -> Answering:
    """As stdout wants it."""
    return LiveText() if sys.stdout.isatty() else WholeText()


def show_turn(
    happening: Generator[Happened | None], text: Answering, line: StatusLine, waiting: str
) -> Result | None:
    """Show a turn to its end; who interrupts it ends it. None where it has ended without a result.

    Args:
        waiting: what is shown until something happens.
    """
    result = None
    with closing(happening), line:
        line.show(waiting)
        try:
            for item in happening:
                if item is None:
                    line.refresh()
                elif isinstance(item, Result):
                    result = item
                else:
                    line.hide()
                    _show(item, text, line)
        except BaseException:
            line.hide()
            text.give_up()
            raise
    text.end()
    return result


def say_what_is_missing(result: Result) -> None:
    """A note of what is no text in an answer, or that there is nothing."""
    if result.images:
        note(f"(with {counted(result.images, 'image')}, which `pallasctl ask -o json` gives)")
    elif not result.content:
        note("(the agent ended without a word)")


def _show(item: Happened, text: Answering, line: StatusLine) -> None:
    match item:
        case Text(delta):
            text.add(delta)
        case Reset(characters):
            text.take_back(characters)
        case ToolCall(tool, arguments):
            text.pause()
            note(shortened(f"[{one_line(tool)} {_arguments(arguments)}".rstrip(), _LONGEST_CALL) + "]")
            line.show(tool)
        case ToolResult(tool, ok, said):
            text.pause()
            outcome = "done" if ok else "failed"
            what = f"{outcome}: {one_line(said)}" if said.strip() else outcome
            note(shortened(f"[{one_line(tool)} {what}", _LONGEST_RESULT) + "]")
        case Aside(said):
            text.pause()
            for each in said.splitlines():
                note(each)
        case Doing(message):
            line.show(message)


def _arguments(arguments: object) -> str:
    if arguments in (None, {}):
        return ""
    return one_line(json.dumps(arguments, ensure_ascii=False))
