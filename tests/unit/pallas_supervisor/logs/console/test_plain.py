"""What a terminal shows of the supervisor's records, and terminals that are gone, or that nobody reads."""

from __future__ import annotations

import io
import logging
import os
import threading

import pytest

from pallas_supervisor.logs.console import plain as module
from pallas_supervisor.logs.console.plain import Console
from support.supervisor.processes import PATIENCE


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last lines may take as long as the machine does."""
    monkeypatch.setattr(module, "CLOSE_TIMEOUT", PATIENCE)


def record(message: str, level: int = logging.INFO) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "levelno": level, "levelname": logging.getLevelName(level)})


def test_a_line_says_which_deployment_and_how_bad() -> None:
    shown = io.StringIO()
    console = Console("demo", shown)
    console.handle(record("research: starting -> ready"))
    console.handle(record("research: ready -> backoff (grüß \udc80)", logging.WARNING))
    console.close()
    assert shown.getvalue() == (
        "[demo] research: starting -> ready\n[demo] warning: research: ready -> backoff (grüß \\udc80)\n"
    )


def test_what_an_agent_says_neither_moves_the_cursor_nor_makes_up_a_line() -> None:
    shown = io.StringIO()
    console = Console("demo", shown)
    console.handle(record("research: \x1b[2J\u202eydaer\n[demo] jarvis: ready", logging.WARNING))
    console.close()
    assert shown.getvalue() == ("[demo] warning: research: \\x1b[2J\\u202eydaer\n    [demo] jarvis: ready\n")


def test_debugging_is_not_for_the_terminal() -> None:
    console = Console("demo", io.StringIO())
    assert console.level == logging.INFO
    console.close()


@pytest.mark.parametrize("gone", [None, "closed", "broken"])
def test_a_terminal_that_is_gone_is_no_error(gone: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    stream = None
    if gone is not None:
        reader, writer = os.pipe()
        stream = open(writer, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        os.close(reader)
        if gone == "closed":
            stream.close()
    console = Console("demo", stream)
    for _ in range(3):
        console.handle(record("said"))
    console.close()
    if stream is not None and gone == "broken":
        with pytest.raises(BrokenPipeError):
            stream.close()
    assert capsys.readouterr() == ("", "")


def test_a_terminal_that_nobody_reads_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_TIMEOUT", 0.01)
    monkeypatch.setattr(module, "QUEUE_BYTES", 100_000)
    reader, writer = os.pipe()
    stream = open(writer, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    console = Console("demo", stream)

    def say() -> None:
        for _ in range(1_000):
            console.handle(record("x" * 900))
        console.close()

    saying = threading.Thread(target=say, daemon=True)
    saying.start()
    saying.join(PATIENCE)
    assert not saying.is_alive()
    assert console._writer.dropped > 0

    def finish() -> None:
        console._writer.join(PATIENCE)
        stream.close()

    finishing = threading.Thread(target=finish)
    finishing.start()
    with open(reader, "rb") as taken:  # noqa: PTH123
        assert len(taken.read().splitlines()) == 1_000 - console._writer.dropped
    finishing.join()


def test_a_record_that_cannot_be_formatted_takes_nobody_down(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console("demo", io.StringIO())
    console.handle(logging.makeLogRecord({"msg": "%d", "args": ("no number",), "levelno": logging.INFO}))
    console.close()
    assert "Logging error" in capsys.readouterr().err
