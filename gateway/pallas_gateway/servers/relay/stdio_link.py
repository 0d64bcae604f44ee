"""A server of MCP that is a child process and speaks on standard input and output, one message a line.

It has a session of its own, so that all that it starts is killed with it. Ids are everybody's on the one pipe, so
that each call gets one of its own; progress is not passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
from typing import TYPE_CHECKING, Any

from pallas_common.logs.setup import get_logger
from pallas_common.problems import shortened
from pallas_gateway.servers.relay import adapting, answers
from pallas_gateway.servers.relay.http.errors import (
    BusyError,
    LateError,
    LostError,
    NoConnectionError,
    WrongAnswerError,
)
from pallas_gateway.servers.relay.model import SESSIONS_VERSION, Opened, ServerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pallas_gateway.servers.relay.model import Answer, Call, Heard, Json

LONGEST_LINE = 32 * 1024 * 1024
"""Bytes of one message."""
MOST_CALLS = 256
"""At a time, to one child."""
OPEN_TIMEOUT = 30.0
STOP_TIMEOUT = 2.0
"""Seconds between SIGTERM and SIGKILL."""
LONGEST_LOG_LINE = 1000
MOST_LOG_LINES = 1000
"""Of what one start of a server says on standard error."""
INHERITED = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER", "PALLAS_RUNTIME_DIR")
"""Of the gateway's environment, which may hold the store's password and keys: what every program needs (as
`mcp.client.stdio.get_default_environment` has it), and that by which a deployment's processes are found."""
_METHOD_NOT_FOUND = -32601

_log = get_logger("pallas.gateway.relay")


class StdioLink:
    """One child, started by `open` and again by each later one.

    Args:
        command: the program and its arguments, as they are configured; no shell.
        environment: beside what every program needs.
    """

    transport = "stdio"

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], directory: str | None
    ) -> None:
        self._name = name
        self._command = tuple(command)
        self._environment = dict(environment)
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._ids = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._heard: Heard | None = None

    @property
    def connections(self) -> int:
        """One to a child that runs."""
        return int(self._process is not None and self._process.returncode is None)

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
        self._ended = asyncio.Event()
        for work in (self._read(process), self._log(process)):
            task = asyncio.get_running_loop().create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        params = {"protocolVersion": SESSIONS_VERSION, "capabilities": {}, "clientInfo": adapting.CLIENT}
        result = await self.request("initialize", params, timeout=OPEN_TIMEOUT)
        version = result.get("protocolVersion")
        if not isinstance(version, str):
            raise WrongAnswerError("it says no version of MCP")
        await self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        capabilities, info = result.get("capabilities"), result.get("serverInfo")
        instructions = result.get("instructions")
        return Opened(
            era="sessions",
            version=version[:20],
            capabilities=capabilities if isinstance(capabilities, dict) else {},
            info=info if isinstance(info, dict) else {},
            instructions=instructions if isinstance(instructions, str) else None,
        )

    async def request(self, method: str, params: Json, *, timeout: float) -> Json:
        """The result of a request of our own; raises as `open` does."""
        return adapting.result_of(await self._ask(next(self._ids), method, params, timeout))

    async def relay(self, call: Call) -> Answer:
        """The answer to a client's request. Progress is passed over: the answer is given whole.

        Raises:
            RelayError: there is none.
        """
        id_ = next(self._ids)
        params = adapting.outgoing(call, "sessions", SESSIONS_VERSION)
        if isinstance(meta := params.get("_meta"), dict) and "progressToken" in meta:
            params["_meta"] = {name: value for name, value in meta.items() if name != "progressToken"}
        try:
            message = await self._ask(id_, call.method, params, call.timeout)
        except (asyncio.CancelledError, LateError):
            cancelled = {"requestId": id_, "reason": "the caller has gone"}
            with contextlib.suppress(LostError):
                self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
            raise
        message, _ = adapting.answered(message, call, id_, "sessions")
        return answers.answer(call, message, None, 200)

    async def watch(self, uris: frozenset[str], heard: Heard) -> None:
        """Hear of changes until the child ends.

        Raises:
            LostError: it has.
        """
        self._heard = heard
        for uri in sorted(uris):
            with contextlib.suppress(ServerError):
                await self.request("resources/subscribe", {"uri": uri}, timeout=OPEN_TIMEOUT)
        await self._ended.wait()
        raise LostError("the server's process has ended")

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
        self._fail("the server's process has ended")
        for task in list(self._tasks):
            task.cancel()

    async def _ask(self, id_: int, method: str, params: Json, timeout: float | None) -> Json:
        if len(self._waiting) >= MOST_CALLS:
            raise BusyError(f"{MOST_CALLS} calls wait for the server {self._name} already")
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = answer
        try:
            async with asyncio.timeout(timeout):
                await self._write({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
                return await answer
        except TimeoutError:
            raise LateError(f"no answer within {timeout:g} s") from None
        finally:
            self._waiting.pop(id_, None)

    def _send(self, message: Json) -> asyncio.StreamWriter:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            raise LostError("the server's process has ended")
        process.stdin.write(adapting.dumped(message) + b"\n")
        return process.stdin

    async def _write(self, message: Json) -> None:
        try:
            await self._send(message).drain()
        except OSError:
            raise LostError("the server's process has ended") from None

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        reason = "the server's process has ended"
        try:
            while line := await process.stdout.readline():
                if line.strip():
                    await self._take(line)
        except ValueError:
            reason = f"it wrote a line of more than {LONGEST_LINE // 1024**2} MiB"
        except LostError as error:
            reason = str(error)
        finally:
            self._fail(reason)
            self._ended.set()

    async def _take(self, line: bytes) -> None:
        try:
            message = adapting.parse(line)
        except WrongAnswerError:
            _log.warning(f"the server {self._name} wrote a line that is no message of MCP")
            return
        id_, method = message.get("id"), message.get("method")
        if adapting.is_response(message):
            waiting = self._waiting.get(id_) if type(id_) is int else None
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif isinstance(method, str) and id_ is not None:
            outcome: Json = {"error": {"code": _METHOD_NOT_FOUND, "message": "Method not found"}}
            if method == "ping":
                outcome = {"result": {}}
            await self._write({"jsonrpc": "2.0", "id": id_, **outcome})
        elif isinstance(method, str) and self._heard is not None:
            params: Any = message.get("params")
            self._heard(method, params if isinstance(params, dict) else {})

    async def _log(self, process: asyncio.subprocess.Process) -> None:
        """Put what it says on standard error into the log, so much of it; the rest is taken and dropped."""
        assert process.stderr is not None
        left = MOST_LOG_LINES
        while piece := await process.stderr.read(64 * 1024):
            for line in piece.decode("utf-8", "replace").splitlines():
                if line.strip() and left > 0:
                    left -= 1
                    _log.info(f"{self._name}: {shortened(line, LONGEST_LOG_LINE)}")

    def _fail(self, reason: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(LostError(reason))


def _inherited() -> dict[str, str]:
    """What a child has beside what its definition says; not functions of bash, which a shell would run."""
    found = ((name, os.environ.get(name)) for name in INHERITED)
    return {name: value for name, value in found if value is not None and not value.startswith("()")}
