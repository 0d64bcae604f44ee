"""Stands before the gateway for the conformance suite, which can neither send a token nor say a server's name.

Adds `Authorization` to each request; puts the server's name before the names of tools and prompts that are asked for,
and takes it from all answers that are JSON. All else goes through byte by byte, one request a connection. A process of
its own; knows HTTP, and as much of MCP as that takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Mapping

NAMED = ("tools/call", "prompts/get")


class Proxy:
    """Between the suite and one server of a compositor.

    Args:
        port: of the gateway on this machine.
        prefix: what the compositor puts before names.
    """

    def __init__(self, port: int, token: str, prefix: str) -> None:
        self._port = port
        self._token = token
        self._prefix = prefix

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer one connection of the suite."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self._exchange(reader, writer)
        writer.close()

    async def _exchange(self, reader: StreamReader, writer: StreamWriter) -> None:
        line, headers = await read_head(reader)
        if line.startswith("GET /livez "):
            writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            return
        body = self._named(await reader.readexactly(int(headers.get("content-length", "0"))))
        if headers.get("mcp-method") in NAMED and "mcp-name" in headers:
            headers["mcp-name"] = self._prefix + headers["mcp-name"]
        more = {"authorization": f"Bearer {self._token}", "connection": "close"}
        there, asking = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            asking.write(head(line, headers | more, body) + body)
            answering = asyncio.ensure_future(self._answer(there, writer))
            leaving = asyncio.ensure_future(reader.read())
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
        finally:
            asking.close()

    async def _answer(self, there: StreamReader, writer: StreamWriter) -> None:
        line, headers = await read_head(there)
        headers["connection"] = "close"
        if headers.get("content-type", "").startswith("application/json"):
            body = await there.readexactly(int(headers["content-length"]))
            body = body.replace(self._prefix.encode(), b"")
            writer.write(head(line, headers, body) + body)
        else:
            writer.write(head(line, headers))
            while piece := await there.read(64 * 1024):
                writer.write(piece)
                await writer.drain()
        await writer.drain()

    def _named(self, body: bytes) -> bytes:
        """The request as the compositor understands it; what is no request for a name stays as it is."""
        try:
            message = json.loads(body)
            if message["method"] in NAMED:
                message["params"]["name"] = self._prefix + message["params"]["name"]
                return json.dumps(message).encode()
        except (ValueError, KeyError, TypeError):
            pass
        return body


async def read_head(reader: StreamReader) -> tuple[str, dict[str, str]]:
    """The first line, and the headers with their names in lower case."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (re.split(r":[ \t]*", line, maxsplit=1) for line in lines[1:] if line)
    return lines[0], {name.lower(): value for name, value in pairs}


def head(line: str, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
    """A message's head; of one with a body, its length."""
    said = dict(headers) if body is None else dict(headers) | {"content-length": str(len(body))}
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in said.items()), "", ""]).encode(
        "latin-1"
    )


async def main(listener: socket.socket, port: int, token: str, prefix: str) -> None:
    """Serve on `listener` until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    server = await asyncio.start_server(Proxy(port, token, prefix).serve, sock=listener)
    await stopping.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3], sys.argv[4]))
