"""What servers write to stderr: real processes on the pipe that they share, and what the log says of it."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from structlog.contextvars import bound_contextvars

from pallas_common.logs.own_loggers import own_logger
from pallas_worker.downstreams.stdio import server_output
from pallas_worker.downstreams.stdio.server_output import (
    BURST,
    LONGEST_LINE,
    MAX_SERVERS,
    ServerOutput,
    output_of,
    what_is_wrong,
)
from pallas_worker.redact import known, one_line
from pallas_worker.telemetry.correlation import CorrelationFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

LOGGER = "pallas.worker.server"


@pytest.fixture(autouse=True)
def _no_outputs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    for output in server_output._outputs.values():
        output.close()
    server_output._outputs.clear()


@contextmanager
def noted(caplog: pytest.LogCaptureFixture) -> Iterator[asyncio.Event]:
    """An event that each record of the servers' output sets."""
    event, loop = asyncio.Event(), asyncio.get_running_loop()
    handler = logging.Handler()
    setattr(handler, "emit", lambda _record: loop.call_soon(event.set))  # noqa: B010 - no class for one method
    own_logger(LOGGER).addHandler(handler)
    try:
        yield event
    finally:
        own_logger(LOGGER).removeHandler(handler)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def on_a_loop(act: Callable[[ServerOutput], Awaitable[None]]) -> None:
    async def run() -> None:
        output = output_of("files")
        assert output is not None
        async with asyncio.timeout(60):
            await act(output)

    asyncio.run(run())


async def says(output: ServerOutput, program: str) -> None:
    """A process of the server runs and ends."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-ISc", program, stderr=output.fileno())
    assert await process.wait() == 0


def test_lines_are_logged_with_the_servers_name_and_belong_to_no_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.handler.addFilter(CorrelationFilter())

    async def act(output: ServerOutput) -> None:
        with noted(caplog) as event:
            await says(output, "import sys; sys.stderr.write('one\\n\\n  \\ntwo\\n')")
            while logged(caplog) != ["files: one", "files: two"]:
                event.clear()
                await event.wait()

    with bound_contextvars(request_id="of-the-call-that-started-it"):
        on_a_loop(act)
    records = [record for record in caplog.records if record.name == LOGGER]
    assert [record.levelname for record in records] == ["INFO"] * 2
    assert all(record.__dict__["server"] == "files" for record in records)
    assert not any(hasattr(record, "request_id") for record in records)


def test_what_is_read_when_a_call_cannot_attach_belongs_to_no_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(CorrelationFilter())

    async def act(output: ServerOutput) -> None:
        with bound_contextvars(request_id="of-the-call-that-attaches"):
            os.write(output.fileno(), b"one\ntwo")
            assert output.said_since(0) == "one | two"

    on_a_loop(act)
    records = [record for record in caplog.records if record.name == LOGGER]
    assert [record.getMessage() for record in records] == ["files: one", "files: two"]
    assert not any(hasattr(record, "request_id") for record in records)


def test_the_newest_line_of_an_attempt_is_known_though_it_has_no_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def act(output: ServerOutput) -> None:
        await says(output, "import sys; sys.stderr.write('before')")
        assert output.said_since(0) == "before"
        mark = output.lines
        assert output.said_since(mark) is None
        await says(output, "import sys; sys.stderr.write('Traceback\\nKeyError: 1')")
        assert output.said_since(mark) == "KeyError: 1"
        output.muted, mark = True, output.lines
        await says(output, "import sys; sys.stderr.write('again')")
        assert output.said_since(mark) == "again"

    on_a_loop(act)
    levels = [record.levelname for record in caplog.records if record.name == LOGGER]
    assert levels == ["INFO", "INFO", "INFO", "DEBUG"]


@pytest.mark.parametrize(
    ("lines", "picked"),
    [
        (["starting", "docker: Error response: no image", "Run 'docker run --help'"], 1),
        (["thread 'main' panicked at x.rs", "note: run with RUST_BACKTRACE=1"], 0),
        (["fatal: not a git repository", "hint: …"], 0),
        (["Traceback (most recent call last):", '  File "/errors/x.py", line 1', "KeyError: 'A'", "bye"], 2),
        (["  raise ValueError", "  at x"], 0),
    ],
)
def test_the_line_that_says_what_is_wrong_is_found(lines: list[str], picked: int) -> None:
    assert what_is_wrong(lines) == [lines[picked]]


def test_else_it_is_the_last_three() -> None:
    assert what_is_wrong(["usage: x", "a", "b", "c"]) == ["a", "b", "c"]
    assert what_is_wrong([]) == []


def test_what_a_server_says_is_bounded_escaped_and_without_secrets(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.add(["the-agents-secret"])
    half = "x" * (LONGEST_LINE - 5)

    async def act(output: ServerOutput) -> None:
        program = "import sys; sys.stderr.write(sys.stdin.read())"

        async def said(text: str) -> str | None:
            mark = output.lines
            await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-ISc", program],
                input=text.encode(),
                stderr=output.fileno(),
                check=True,
            )
            return output.said_since(mark)

        assert await said("key the-agents-secret, Bearer abcdefgh") == "key [redacted], Bearer [redacted]"
        assert await said("\x1b[2J\u202egpj.exe") == r"\x1b[2J\u202egpj.exe"
        long = await said(half + "the-agents-secret")
        assert long is not None
        assert (len(long), "the-a" in long) == (LONGEST_LINE, False)
        endless = await said("y" * 60_000)
        assert endless == "y" * (LONGEST_LINE - 1) + "…"

    on_a_loop(act)
    assert "the-agents-secret" not in caplog.text
    assert max(map(len, logged(caplog))) <= LONGEST_LINE + len("files: ")


def test_a_flood_is_counted_and_told_and_holds_nobody_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_output, "LINES_PER_SECOND", 0)
    monkeypatch.setattr(server_output, "TELL_AFTER", 0.0)
    lines = 200_000

    async def act(output: ServerOutput) -> None:
        with noted(caplog) as event:
            await says(output, f"import sys; sys.stderr.write('flood\\n' * {lines} + 'last\\n')")
            while (
                output.said_since(lines) != "last" or sum(map(left_out, logged(caplog))) < lines + 1 - BURST
            ):
                event.clear()
                await event.wait()

    on_a_loop(act)
    said = logged(caplog)
    assert said.count("files: flood") == BURST
    assert sum(map(left_out, said)) == lines + 1 - BURST


def left_out(message: str) -> int:
    """The number in a record that tells of lines that were left out."""
    _, found, number = message.partition("lines on stderr that were left out: ")
    return int(number) if found else 0


def test_each_server_has_a_pipe_that_its_processes_share_and_there_is_a_bound() -> None:
    async def run() -> None:
        first = output_of("files")
        assert first is output_of("files")
        assert first is not output_of("search")
        for number in range(MAX_SERVERS - 2):
            assert output_of(f"more {number}") is not None
        assert output_of("one too many") is None

    asyncio.run(run())

    async def again() -> None:
        output = output_of("files")
        assert output is not None
        os.write(output.fileno(), b"on another loop\n")
        assert output.said_since(0) == "on another loop"

    asyncio.run(again())


def test_one_line_keeps_what_fits() -> None:
    assert one_line("  a \n b\tc ", 5) == "a b c"
    assert one_line("abcdef", 5) == "abcd…"
