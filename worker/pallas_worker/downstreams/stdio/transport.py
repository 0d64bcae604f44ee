"""The transport of MCP to a server that runs as a command, one message a line.

Why not the SDK's: it leaves behind what a server has started where the server itself ends in time, loses a server that
writes a line of another encoding, and logs each line that is no message with a traceback and without a name.

Knows lines, and the SDK's messages; nothing of who uses the server.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import anyio
import mcp_types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from pallas_common.logs.setup import get_logger
from pallas_common.processes.program import LONGEST_LINE, LongLineError, Program
from pallas_common.processes.stray_lines import StrayLines, is_perhaps_message
from pallas_worker.redact import one_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client.stdio import StdioServerParameters

PATIENCE = 2.0
"""Seconds that a server has to end by itself when its input has ended."""
FLUSH = 0.5
"""Seconds in which what has been sent to it is still written."""
MAX_SERVERS = 64
"""Servers whose stray lines are counted over all calls; those of others are told by each process."""

_log = get_logger("pallas.worker.server")
_strays: dict[str, StrayLines] = {}


@contextlib.asynccontextmanager
async def stdio_client(
    name: str, server: StdioServerParameters, errors: int
) -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    """A process of the server, until the end of the block: as the SDK's function of that name, for its streams.

    Args:
        name: of the server, for the log.
        errors: the descriptor that becomes its stderr.

    Raises:
        OSError, ValueError: it cannot be started.
    """
    environment = get_default_environment() | (server.env or {})
    directory = None if server.cwd is None else str(server.cwd)
    program = await Program.start([server.command, *server.args], environment, directory, errors)
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()

    async def read() -> None:
        strays = _strays_of(name)
        async with to_session:
            try:
                async for line in program.lines():
                    message = _message(line)
                    if message is None:
                        strays.add(line)
                    else:
                        await to_session.send(message)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):  # nobody listens any more
                await _read_out(program)
            except LongLineError:
                _log.warning(
                    f"{name}: its process is ended: it wrote a line of more than {LONGEST_LINE // 1024**2} MiB",
                    server=name,
                )

    async def write() -> None:
        try:
            async with from_session:
                async for sent in from_session:
                    text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await program.write(text.encode() + b"\n")
        except OSError:  # it reads no more: the session sees its end
            await to_session.aclose()
        finally:
            written.set()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            try:
                yield from_server, to_server
            finally:
                with anyio.CancelScope(shield=True):
                    from_server.close()  # what it still writes is read and dropped, so that it can read
                    to_server.close()
                    with anyio.move_on_after(FLUSH):
                        await written.wait()
                    await program.end(PATIENCE)
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await program.end()


def _message(line: bytes) -> SessionMessage | None:
    if not is_perhaps_message(line):
        return None
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _read_out(program: Program) -> None:
    with contextlib.suppress(LongLineError):
        async for _ in program.lines():
            pass


def _strays_of(name: str) -> StrayLines:
    def warn(message: str) -> None:
        _log.warning(message, server=name)

    strays = _strays.get(name) or StrayLines(name, warn, one_line)
    if len(_strays) < MAX_SERVERS:
        _strays[name] = strays
    return strays
