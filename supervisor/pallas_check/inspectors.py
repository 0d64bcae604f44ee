"""Inspectors: one process for each interpreter, which has each agent's code tried in a process of its own.

Knows processes, pipes and the messages of `pallas_common.protocol.inspection`; nothing of what they mean. All ends with
the lifeline, which ends with this process, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
from typing import TYPE_CHECKING, Self

from pallas_common.processes.spawning import execute
from pallas_common.protocol.inspection import (
    MOST_ANSWER,
    InspectionEnd,
    InspectionOrder,
    InspectorReady,
    decode,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import RawIOBase
    from types import TracebackType

    from pallas_common.protocol.spec import WorkerSpec

READY_TIMEOUT = 120.0
"""Seconds that an inspector may take to import fast-agent: on a busy machine, from sources that are not compiled."""
MARGIN = 15.0
"""Seconds beyond an inspection's own time after which its guard does not work."""
FAREWELL = 6.0
"""Seconds that guards may take to end what they guard, once they are not wanted any more."""
_AGAIN = 0.02
"""Seconds between two looks whether the inspector has ended."""
MOST_COMPLAINT = 16 * 1024
"""Bytes of what an inspector prints that are looked at."""


class InspectorError(Exception):
    """No inspection comes of it. The message is one line; `output` is what the interpreter has printed."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class Inspector:
    """The inspector in one interpreter; an async context manager, at whose end nothing of it is left.

    Args:
        python: path of the interpreter.
        environment: its whole environment; each inspected process has its own.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, python: str, environment: Mapping[str, str]) -> None:
        self._python = python
        self._environment = environment
        self._turn = asyncio.Lock()
        self._ready: InspectorReady | None = None
        self._open: set[asyncio.Task[bytes]] = set()

    async def __aenter__(self) -> Self:
        self._lifeline, self._lifeline_held = os.pipe()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.setblocking(False)
        command = [self._python, "-P", "-m", "pallas_worker.process.inspection", str(theirs.fileno())]
        self._pid: int | None = None
        try:
            with theirs:
                self._pid = execute(command, self._environment, [theirs.fileno()], self._output.fileno())
        except OSError:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._lifeline_held)
        os.close(self._lifeline)
        self._channel.close()
        if self._open:  # each ends when nothing is left of its inspection
            await asyncio.wait(self._open, timeout=FAREWELL)
        if self._pid is not None:
            await self._end(self._pid)
        self._output.close()

    async def _end(self, pid: int) -> None:
        """Wait until the inspector has ended what outlived its guard, or end it."""
        with contextlib.suppress(ChildProcessError):
            for _ in range(round(FAREWELL / _AGAIN)):
                if os.waitpid(pid, os.WNOHANG) != (0, 0):  # noqa: ASYNC222 - it does not wait
                    return
                await asyncio.sleep(_AGAIN)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)  # noqa: ASYNC222 - it has just been killed

    async def version(self) -> str:
        """Which version of Pallas it has, once it is ready.

        Raises:
            InspectorError: it does not come up.
        """
        async with self._turn:
            if self._ready is None:
                try:
                    async with asyncio.timeout(READY_TIMEOUT):
                        packet = await asyncio.get_running_loop().sock_recv(self._channel, 4096)
                    self._ready = decode(InspectorReady, packet)
                except TimeoutError:
                    raise InspectorError(f"not ready to import agents within {READY_TIMEOUT:g} s") from None
                except (OSError, ValueError):
                    raise InspectorError("cannot run Pallas", self._printed()) from None
            return self._ready.version

    async def inspect(self, spec: WorkerSpec, order: InspectionOrder) -> InspectionEnd:
        """Have one agent inspected. Cancelled, it leaves the process to the end of the inspector.

        Raises:
            InspectorError: the inspector, or the guard, has failed.
        """
        await self.version()
        reading = asyncio.create_task(self._send(spec, order))
        self._open.add(reading)
        try:
            async with asyncio.timeout(order.timeout + MARGIN):
                data = await asyncio.shield(reading)
            self._open.discard(reading)
            return decode(InspectionEnd, data)
        except TimeoutError:
            raise InspectorError("the process that inspects it does not answer") from None
        except (OSError, ValueError):
            self._open.discard(reading)
            raise InspectorError("the process that inspects it was ended", self._printed()) from None

    async def _send(self, spec: WorkerSpec, order: InspectionOrder) -> bytes:
        """Send an order, and read the answer until its end of file."""
        memory = os.memfd_create("pallas-inspection")
        answer, theirs = os.pipe()
        with os.fdopen(answer, "rb", buffering=0) as pipe:
            try:
                os.write(memory, spec.to_json())
                socket.send_fds(self._channel, [encode(order)], [memory, theirs, self._lifeline])
            finally:
                os.close(memory)
                os.close(theirs)
            return await _read_all(pipe)

    def _printed(self) -> str:
        size = os.fstat(self._output.fileno()).st_size
        data = os.pread(self._output.fileno(), MOST_COMPLAINT, max(0, size - MOST_COMPLAINT))
        return data.decode("utf-8", "replace")


async def _read_all(pipe: RawIOBase) -> bytes:
    """What comes until the end of file; of more than `MOST_ANSWER`, the beginning."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        data = bytearray()
        while chunk := await reader.read(1 << 16):
            data += chunk[: MOST_ANSWER - len(data)]
        return bytes(data)
    finally:
        transport.close()
