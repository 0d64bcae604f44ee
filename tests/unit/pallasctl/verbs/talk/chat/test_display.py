"""What is shown of a turn: in a pipe, and on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.chat.backend import FakeBackend
from pallas_control.mcp.errors import CallError
from pallasctl.verbs.talk.backends.backend import (
    Aside,
    Asked,
    Doing,
    Message,
    Reset,
    Result,
    Text,
    ToolCall,
    ToolResult,
)
from pallasctl.verbs.talk.chat.display import LiveText, WholeText, show_turn
from pallasctl.verbs.talk.terminal.status_line import StatusLine

if TYPE_CHECKING:
    from pallasctl.verbs.talk.backends.backend import Happened
    from pallasctl.verbs.talk.chat.display import Answering

HOSTILE = "\x1b]0;x\x07a\u202eb\ud83d\r\n"


def shown(text: Answering, *happens: Happened | None) -> Result | None:
    """Show a turn in which that happens."""
    backend = FakeBackend(*happens)
    return show_turn(backend.ask(Asked(Message("hi"), {})), text, StatusLine(), "waiting")


def test_a_turn(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    result = shown(
        LiveText(),
        None,
        Doing("thinking"),
        Text("Let me"),
        ToolCall("tools__add", {"a": 2, "b": "\x1b["}),
        ToolResult("tools__add", ok=True, text="5\n6"),
        ToolCall("tools__fail", {}),
        ToolResult("tools__fail", ok=False),
        Aside("one\ntwo"),
        Text("It is "),
        Text("5."),
        Result("x"),
    )
    assert result == Result("x")
    out, err = capfdbinary.readouterr()
    assert out == b"Let me\nIt is 5.\n"
    assert err.decode().splitlines() == [
        r'[tools__add {"a": 2, "b": "\u001b["}]',
        "[tools__add done: 5 6]",
        "[tools__fail]",
        "[tools__fail failed]",
        "one",
        "two",
    ]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_what_a_terminal_would_obey_does_not_reach_it_however_it_is_parted(
    size: int, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pieces = [HOSTILE[at : at + size] for at in range(0, len(HOSTILE), size)]
    shown(LiveText(), *map(Text, pieces), Result(""))
    assert capfdbinary.readouterr().out == b"\\x1b]0;x\\x07a\\u202eb\\ud83d\\r\n"


def test_text_that_is_taken_back_on_a_terminal(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    shown(LiveText(), Text("abc"), Reset(3), Text("abcd"), Reset(1), Text("e"), Result("abce"))
    out, err = capfdbinary.readouterr()
    assert out == b"abc\nabcd\ne\n"
    assert err.splitlines() == [
        b"[the text above is void: the answer begins anew]",
        b"[the last 1 character above are void: the answer goes on anew]",
    ]


def test_text_that_is_taken_back_in_a_pipe(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    shown(WholeText(), Text("abc"), Text("de"), Reset(4), Text("\x1bx"), Result("ax"))
    assert capfdbinary.readouterr() == (b"a\x1bx\n", b"")


def test_what_a_turn_that_fails_has_said_is_no_answer(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    backend = FakeBackend(Text("half"))
    backend.failure = CallError("it broke")
    text = WholeText()
    for _ in range(2):
        with pytest.raises(CallError):
            show_turn(backend.ask(Asked(Message("hi"), {})), text, StatusLine(), "waiting")
    text.end()
    assert capfdbinary.readouterr() == (b"", b"")


def test_a_long_call_is_cut(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    shown(WholeText(), ToolCall("a__b", {"text": "x" * 10_000}), Result(""))
    line = capfdbinary.readouterr().err.decode().rstrip("\n")
    assert (len(line) <= 301, line[-1]) == (True, "]")
