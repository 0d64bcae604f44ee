"""A program that is spoken with on its standard input and output, line by line, and ends with all that it has started.

Knows pipes, pidfds and the running loop; nothing of what is said. What the program writes is hostile: a line is
bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from typing import TYPE_CHECKING, Self

from pallas_common.processes.spawning import start_piped
from pallas_common.processes.tree import MARK_VARIABLE, OWNER_VARIABLE, ProcessTree

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Mapping, Sequence

LONGEST_LINE = 32 * 1024 * 1024
"""Bytes of one line."""
STOP_TIMEOUT = 2.0
"""Seconds between SIGTERM and SIGKILL."""
ENDING = 5.0
"""Seconds after which what is still there sleeps in the kernel, or is another user's."""
_AGAIN = 0.005
_CHUNK = 64 * 1024


class LongLineError(Exception):
    """The program has written a line without end."""


class Program:
    """One run of a program. Made by `start`; to be ended by `end`, also where it has ended by itself."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._process = process
        pipes = (process.stdin.fileno(), process.stdout.fileno())
        links = tuple(f"pipe:[{os.fstat(pipe).st_ino}]" for pipe in pipes)
        self._tree = ProcessTree(process.pid, mark, links)
        self._pidfd = os.pidfd_open(process.pid)
        self._ended = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._output = asyncio.StreamReader()
        self._output_end: asyncio.ReadTransport | None = None
        self._input: asyncio.StreamWriter | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pidfd, self._see_end)

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str], directory: str | None, errors: int
    ) -> Self:
        """Start it.

        Args:
            command: the program and its arguments; no shell.
            environment: all of it, but for what says whose it is.
            errors: the descriptor that becomes its stderr.

        Raises:
            OSError, ValueError: it cannot be executed.
        """
        mark = secrets.token_hex(8)
        marks = {MARK_VARIABLE: mark}
        if (owner := os.environ.get(OWNER_VARIABLE)) is not None:
            marks[OWNER_VARIABLE] = owner
        process = start_piped(command, {**environment, **marks}, directory, errors)
        try:
            program = cls(process, mark)
        except BaseException:
            process.kill()
            process.wait()
            raise
        try:
            await program._connect()
        except BaseException:
            await program.end(0)
            raise
        return program

    async def _connect(self) -> None:
        loop = self._loop
        self._output_end, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._output), self._process.stdout
        )
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())  # for its flow control
        transport, _ = await loop.connect_write_pipe(lambda: protocol, self._process.stdin)
        self._input = asyncio.StreamWriter(transport, protocol, None, loop)

    @property
    def is_running(self) -> bool:
        """Whether it is there; what it has started may be, when it is not."""
        return not self._ended.is_set()

    async def write(self, data: bytes) -> None:
        """Write to its standard input.

        Raises:
            OSError: it reads no more.
        """
        if self._input is None or self._input.is_closing():
            raise BrokenPipeError
        self._input.write(data)
        await self._input.drain()

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines of its standard output, without their ends, until it ends.

        Raises:
            LongLineError: one has no end.
        """
        rest = bytearray()
        while chunk := await self._output.read(_CHUNK):
            first, found, more = chunk.partition(b"\n")
            rest += first
            if not found:
                if len(rest) > LONGEST_LINE:
                    raise LongLineError
                continue
            yield bytes(rest)
            *whole, last = more.split(b"\n")
            rest = bytearray(last)
            for line in whole:
                yield line
        if rest:
            yield bytes(rest)

    async def end(self, patience: float = 0.0) -> None:
        """Close its input, and after `patience` seconds (at once, if it has ended) end it with all that it has started.

        It has `STOP_TIMEOUT` seconds between SIGTERM and SIGKILL. Goes on where the caller is cancelled.
        """
        if self._ending is None:
            self._ending = self._loop.create_task(self._end(patience), name=f"end of process {self.pid}")
        await asyncio.shield(self._ending)

    async def _end(self, patience: float) -> None:
        self._tree.look()  # while it lives, and its children are known by it
        if self._input is not None:
            self._input.close()
        try:
            if not await self._ends_within(patience):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGTERM)
                await self._ends_within(STOP_TIMEOUT)
            deadline = self._loop.time() + ENDING
            while not self._tree.kill() and self._loop.time() < deadline:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(_AGAIN)
            await self._ends_within(STOP_TIMEOUT)
        finally:
            self._let_go()

    async def _ends_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        return self._ended.is_set()

    def _see_end(self) -> None:
        """Note that it has ended. It is left unreaped: so long nobody else has its number, which is its session's."""
        self._loop.remove_reader(self._pidfd)
        self._ended.set()

    def _let_go(self) -> None:
        if not self._ended.is_set():
            self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._output_end is not None:
            self._output_end.close()
        elif self._process.stdout is not None:
            self._process.stdout.close()
        if self._input is None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process.poll()
