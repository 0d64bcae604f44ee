"""Messages as a person types them, or a script sends them: one line, or several whose ends are escaped.

Knows readline and terminals; nothing of agents.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pallasctl.interrupts import waking_on_interrupt
from pallasctl.verbs.talk.terminal.message_text import LONGEST_TEXT, UnreadableError, decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pallasctl.verbs.talk.terminal.input_history import InputHistory

CONTINUES = "\\"
"""At the end of a line: the message goes on in the next one."""

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def typed_messages(
    complete: Callable[[str, str], Sequence[str]], history: InputHistory
) -> Callable[[], str | None]:
    """A function that asks a person for the next message, None at the end; with line editing and its history.

    Args:
        complete: what the word that has been begun may become, given the line before it and the word.
        history: of earlier chats; what is typed is added.
    """
    _prepare(complete, history.entries)
    first, more = _prompt("> "), _prompt("… ")

    def ask() -> str | None:
        try:
            with waking_on_interrupt():
                lines = [input(first)]
                while lines[-1].endswith(CONTINUES):
                    lines[-1] = lines[-1].removesuffix(CONTINUES)
                    lines.append(input(more))
        except EOFError:
            return None
        history.add("\n".join(lines))
        return decoded(os.fsencode("\n".join(lines)), "the message")

    return ask


def piped_messages() -> Iterator[str]:
    """The messages on stdin, one a line; empty ones are passed over.

    Raises:
        UnreadableError: a message is too long, or not UTF-8.
    """
    read = sys.stdin.buffer.readline
    lines: list[bytes] = []
    size = 0
    while line := read(LONGEST_TEXT + 1 - size):
        size += len(line)
        if size > LONGEST_TEXT:
            raise UnreadableError(f"a message on standard input has more than {LONGEST_TEXT // 1024**2} MiB")
        ended = line.removesuffix(b"\n")
        if ended.endswith(CONTINUES.encode()):
            lines.append(ended[:-1])
            continue
        text = decoded(b"\n".join([*lines, ended]), "standard input")
        lines, size = [], 0
        if text.strip():
            yield text
    if rest := decoded(b"\n".join(lines), "standard input").strip():
        yield rest


@contextlib.contextmanager
def no_echo() -> Iterator[None]:
    """Within the block, what is typed does not appear; it is there for the next prompt. Ctrl-C works."""
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    silent = [*before]
    silent[3] &= ~(termios.ECHO | termios.ECHONL)
    termios.tcsetattr(descriptor, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _prompt(text: str) -> str:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x01{_BOLD}\x02{text.rstrip()}\x01{_PLAIN}\x02 "  # \x01 and \x02 enclose what takes no room


def _prepare(complete: Callable[[str, str], Sequence[str]], entries: Sequence[str]) -> None:
    try:
        import readline
    except ImportError:  # a Python without it; the terminal's own editing is left
        return
    readline.set_auto_history(True)
    for entry in entries:
        readline.add_history(entry)
    # What is pasted is one message, whatever lines it has.
    readline.parse_and_bind("set enable-bracketed-paste on")
    readline.parse_and_bind("tab: complete")
    readline.set_completer_delims(" ")
    found: list[str] = []

    def completer(text: str, state: int) -> str | None:
        if state == 0:
            found[:] = sorted(complete(readline.get_line_buffer()[: readline.get_begidx()], text))
        return found[state] if state < len(found) else None

    readline.set_completer(completer)


def paths(text: str) -> list[str]:
    """The paths that begin so, folders with a slash; `~/` is the user's home."""
    folder, slash, begun = text.rpartition("/")
    try:
        with os.scandir(Path(folder + slash).expanduser()) as entries:
            return [
                folder + slash + entry.name + "/" * entry.is_dir()
                for entry in entries
                if entry.name.startswith(begun)
            ]
    except (OSError, RuntimeError):  # a home that is not there
        return []
