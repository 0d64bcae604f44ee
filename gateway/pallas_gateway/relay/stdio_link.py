"""A server of MCP that is a child process and speaks on standard input and output, one message a line."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.problems import shortened
from pallas_common.processes.program import LONGEST_LINE, LongLineError, Program
from pallas_gateway.relay.duplex import Duplex
from pallas_gateway.relay.http.errors import LostError, NoConnectionError, RelayError
from pallas_gateway.relay.messages import adapting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from io import FileIO

    from pallas_gateway.relay.messages.model import Answer, Call, Heard, Json, Opened

LONGEST_LOG_LINE = 1000
MOST_LOG_LINES = 1000
"""Of what one start of a server says on standard error."""
INHERITED = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER", "PALLAS_RUNTIME_DIR")
"""Of the gateway's environment, which may hold the store's password and keys: what every program needs (as
`mcp.client.stdio.get_default_environment` has it), and that by which a deployment's processes are found."""
ENDED = "the server's process has ended"

_log = get_logger("pallas.gateway.relay")


class StdioLink:
    """One child, started by `open` and again by each later one.

    Args:
        command: the program and its arguments, as they are configured; no shell.
        environment: beside what every program needs.
        read_timeout: seconds that the server's settings allow for one answer; None for no limit of its own.
    """

    transport = "stdio"
    shares_connections = False
    keeps_sessions = False

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: str | None,
        *,
        read_timeout: float | None = None,
    ) -> None:
        self._name = name
        self._command = tuple(command)
        self._environment = dict(environment)
        self._directory = directory
        self._program: Program | None = None
        self._read_timeout = read_timeout
        self._duplex = Duplex(name, self._write)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """One to a child that runs."""
        return int(self._program is not None and self._program.is_running)

    def another(self) -> StdioLink:
        """The child is one for all."""
        return self

    async def open(self) -> Opened:
        """Start it, and shake hands.

        Raises:
            RelayError: it cannot be started, or does not answer.
            ServerError: it refuses.
        """
        await self.close()
        environment = _inherited() | self._environment
        try:
            reading, writing = os.pipe()
            errors = os.fdopen(reading, "rb", buffering=0)
            with os.fdopen(writing, "wb", buffering=0):
                program = await Program.start(self._command, environment, self._directory, writing)
        except (OSError, ValueError) as error:
            raise NoConnectionError(f"its command {self._command[0]!r} cannot be started: {error}") from None
        self._program = program
        self._duplex = Duplex(self._name, self._write)
        for work in (self._read(program, self._duplex), self._log(errors)):
            task = asyncio.get_running_loop().create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await self._duplex.shake_hands()

    async def request(self, method: str, params: Json, *, timeout: float) -> Json:
        """The result of a request of our own; raises as `open` does."""
        return await self._duplex.request(method, params, timeout=timeout)

    async def relay(self, call: Call) -> Answer:
        """The answer to a client's request.

        Raises:
            RelayError: there is none.
        """
        return await self._duplex.relay(call.within(self._read_timeout))

    async def watch(self, uris: frozenset[str], heard: Heard) -> None:
        """Hear of changes until the child ends.

        Raises:
            LostError: it has.
        """
        await self._duplex.watch(uris, heard)

    async def resubscribe(self, before: frozenset[str], after: frozenset[str]) -> bool:
        """Have the server tell of other resources."""
        return await self._duplex.resubscribe(before, after)

    async def close(self) -> None:
        """End the child and all that it has started."""
        program, self._program = self._program, None
        if program is None:
            return
        await program.end()
        self._duplex.end(ENDED)
        for task in list(self._tasks):
            task.cancel()

    async def _write(self, message: Json) -> None:
        if self._program is None:
            raise LostError(ENDED)
        try:
            await self._program.write(adapting.dumped(message) + b"\n")
        except OSError:
            raise LostError(ENDED) from None

    async def _read(self, program: Program, duplex: Duplex) -> None:
        reason = ENDED
        try:
            async for line in program.lines():
                if line.strip():
                    await duplex.take(line)
        except LongLineError:
            reason = f"it wrote a line of more than {LONGEST_LINE // 1024**2} MiB"
        except RelayError as error:
            reason = str(error)
        finally:
            duplex.end(reason)

    async def _log(self, errors: FileIO) -> None:
        """Put what it says on standard error into the log, so much of it; the rest is taken and dropped."""
        left = MOST_LOG_LINES
        stream = asyncio.StreamReader()
        end, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), errors
        )
        try:
            while piece := await stream.read(64 * 1024):
                for line in piece.decode("utf-8", "replace").splitlines():
                    if line.strip() and left > 0:
                        left -= 1
                        _log.info(f"{self._name}: {shortened(line, LONGEST_LOG_LINE)}")
        finally:
            end.close()


def _inherited() -> dict[str, str]:
    """What a child has beside what its definition says; not functions of bash, which a shell would run."""
    found = ((name, os.environ.get(name)) for name in INHERITED)
    return {name: value for name, value in found if value is not None and not value.startswith("()")}
