"""A server of MCP that is a child process and speaks on standard input and output, one message a line.

It has a session of its own, so that all that it starts is killed with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.problems import shortened
from pallas_gateway.relay.duplex import Duplex
from pallas_gateway.relay.http.errors import LostError, NoConnectionError, RelayError
from pallas_gateway.relay.messages import adapting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pallas_gateway.relay.messages.model import Answer, Call, Heard, Json, Opened

LONGEST_LINE = 32 * 1024 * 1024
"""Bytes of one message."""
STOP_TIMEOUT = 2.0
"""Seconds between SIGTERM and SIGKILL."""
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
        self._process: asyncio.subprocess.Process | None = None
        self._read_timeout = read_timeout
        self._duplex = Duplex(name, self._write)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """One to a child that runs."""
        return int(self._process is not None and self._process.returncode is None)

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
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=_inherited() | self._environment,
                cwd=self._directory,
                start_new_session=True,
                limit=LONGEST_LINE,
            )
        except (OSError, ValueError) as error:
            raise NoConnectionError(f"its command {self._command[0]!r} cannot be started: {error}") from None
        self._process = process
        self._duplex = Duplex(self._name, self._write)
        for work in (self._read(process, self._duplex), self._log(process)):
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
        """Kill the child and all of its session."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT):
                await process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        self._duplex.end(ENDED)
        for task in list(self._tasks):
            task.cancel()

    async def _write(self, message: Json) -> None:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            raise LostError(ENDED)
        try:
            process.stdin.write(adapting.dumped(message) + b"\n")
            await process.stdin.drain()
        except OSError:
            raise LostError(ENDED) from None

    async def _read(self, process: asyncio.subprocess.Process, duplex: Duplex) -> None:
        assert process.stdout is not None
        reason = ENDED
        try:
            while line := await process.stdout.readline():
                if line.strip():
                    await duplex.take(line)
        except ValueError:
            reason = f"it wrote a line of more than {LONGEST_LINE // 1024**2} MiB"
        except RelayError as error:
            reason = str(error)
        finally:
            duplex.end(reason)

    async def _log(self, process: asyncio.subprocess.Process) -> None:
        """Put what it says on standard error into the log, so much of it; the rest is taken and dropped."""
        assert process.stderr is not None
        left = MOST_LOG_LINES
        while piece := await process.stderr.read(64 * 1024):
            for line in piece.decode("utf-8", "replace").splitlines():
                if line.strip() and left > 0:
                    left -= 1
                    _log.info(f"{self._name}: {shortened(line, LONGEST_LOG_LINE)}")


def _inherited() -> dict[str, str]:
    """What a child has beside what its definition says; not functions of bash, which a shell would run."""
    found = ((name, os.environ.get(name)) for name in INHERITED)
    return {name: value for name, value in found if value is not None and not value.startswith("()")}
