"""Programs that are spoken with by pipes: their lines, and that nothing of what they have started is left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pallas_common.processes import program as module
from pallas_common.processes.program import LongLineError, Program
from pallas_common.processes.stray_lines import StrayLines
from support.fleet.process_tree import await_end
from support.supervisor.processes import nothing_leaked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATIENCE = 60.0

RUNNERS = [asyncio.new_event_loop, pytest.importorskip("uvloop").new_event_loop]


def run[T](ask: Callable[[Program], Awaitable[T]], source: str, *, patience: float = PATIENCE) -> T:
    """What `ask` returns of a Python program, which has ended afterwards with all that it has started."""

    async def asked() -> T:
        nothing = os.open(os.devnull, os.O_RDWR)
        program = await Program.start([sys.executable, "-ISc", source], {}, None, nothing)
        os.close(nothing)
        try:
            async with asyncio.timeout(PATIENCE):
                return await ask(program)
        finally:
            await program.end(patience)
            assert not program.is_running

    with nothing_leaked():
        return asyncio.run(asked())


FAMILY = """
import os, subprocess, sys, time
SLEEP = [sys.executable, "-ISc", "import time; time.sleep(3600)"]
NOWHERE = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
helper = subprocess.Popen(SLEEP, **NOWHERE)
leavers = [subprocess.Popen(SLEEP, start_new_session=True, env={}, **NOWHERE).pid] if sys.argv[1:] else []
def left_alone(*command):
    script = 'setsid "$@" >&3 3>&- & echo $!'
    return subprocess.check_output(["sh", "-c", script, "sh", *command, *SLEEP], pass_fds=[3], text=True).strip()
os.dup2(os.open(os.devnull, os.O_RDWR), 3)
daemon = left_alone()
os.dup2(1, 3)
talker = left_alone("env", "-i")
print(helper.pid, daemon, talker, *leavers, flush=True)
"""


@pytest.mark.parametrize(
    "rest",
    ["sys.stdin.read()", "", "import signal; signal.signal(15, signal.SIG_IGN); time.sleep(3600)"],
    ids=["ends with its input", "ends at once", "does not end"],
)
def test_nothing_of_what_a_program_has_started_is_left(rest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper, a daemon without a parent, one that has cleaned its environment, one that has shed all but its parent.

    The last one is not found where its parent has ended before anybody looked.
    """
    monkeypatch.setattr(module, "STOP_TIMEOUT", 0.1)

    async def ask(program: Program) -> list[int]:
        return [int(word) for word in (await anext(program.lines())).split()]

    bystander = subprocess.Popen(
        [sys.executable, "-ISc", "import time; time.sleep(3600)"], start_new_session=True
    )
    try:
        source = FAMILY if rest else FAMILY.replace("sys.argv[1:]", "False")
        pids = run(
            ask, source.replace("sys.argv[1:]", "True") + rest, patience=0.1 if "IGN" in rest else PATIENCE
        )
        assert len(pids) == (4 if rest else 3)
        assert [pid for pid in pids if not await_end(pid, 0)] == []
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_who_is_cancelled_while_it_ends_leaves_nothing_either() -> None:
    async def main() -> int:
        nothing = os.open(os.devnull, os.O_RDWR)
        program = await Program.start(["sleep", "3600"], dict(os.environ), None, nothing)
        os.close(nothing)
        ending = asyncio.create_task(program.end(PATIENCE))
        await asyncio.sleep(0)
        ending.cancel()
        await asyncio.wait([ending])
        assert program.is_running
        os.kill(program.pid, 9)
        await program.end()
        return program.pid

    with nothing_leaked():
        assert await_end(asyncio.run(main()), 0)


@pytest.mark.parametrize("new_loop", RUNNERS)
def test_lines_come_as_they_were_written_however_they_are_cut(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    source = "import sys; sys.stdout.buffer.write(b'a\\n\\n' + b'x' * 200_000 + b'\\n\\xff\\nlast'); sys.stdin.read()"

    async def main() -> list[bytes]:
        nothing = os.open(os.devnull, os.O_RDWR)
        program = await Program.start([sys.executable, "-ISc", source], {}, None, nothing)
        os.close(nothing)
        lines = program.lines()
        found = [await anext(lines) for _ in range(4)]
        await program.end(PATIENCE)
        return [*found, *[line async for line in lines]]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(main()) == [b"a", b"", b"x" * 200_000, b"\xff", b"last"]


def test_a_line_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 1000)

    async def ask(program: Program) -> None:
        with pytest.raises(LongLineError):
            await anext(program.lines())

    run(ask, "while True: print('x' * 1000, end='')", patience=0)


def test_what_is_written_is_read_and_a_program_that_reads_no_more_is_an_error() -> None:
    async def ask(program: Program) -> bytes:
        await program.write(b"hello\n")
        said = await anext(program.lines())
        with pytest.raises(ConnectionError):
            await flood(program)
        return said

    async def flood(program: Program) -> None:
        while True:
            await program.write(b"x" * 100_000)

    assert run(ask, "print(input(), flush=True)") == b"hello"


@pytest.mark.parametrize("command", ["/no/such/program", "no\0thing"])
def test_what_cannot_be_started_leaves_nothing(command: str) -> None:
    with nothing_leaked(), pytest.raises((OSError, ValueError)):
        asyncio.run(Program.start([command], {}, None, 2))


def test_stray_lines_are_told_once_and_then_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("pallas_common.processes.stray_lines.time.monotonic", lambda: now[0])
    told: list[str] = []
    strays = StrayLines("git", told.append, lambda text, most: text[:most])
    for line in (b"", b"  ", b"hello \xff", *[b"more"] * 1000):
        strays.add(line)
    assert told == [
        (
            "git: wrote what is no message of MCP, which is passed over: hello �; more of it is counted (what a "
            "program prints belongs on its standard error)"
        )
    ]
    now[0] = 601
    strays.add(b"again")
    assert told[1:] == ["git: lines so far that are no messages of MCP: 1002"]
