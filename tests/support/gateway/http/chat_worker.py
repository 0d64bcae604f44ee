"""A worker's port that answers chat completions with what a test tells it to, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    type Answer = Callable[[ChatRequest, asyncio.StreamWriter], Awaitable[None]]

DONE = "data: [DONE]\n\n"


@dataclass
class ChatRequest:
    """What came."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


@dataclass
class ChatWorker:
    """Takes any number of connections, and requests on each.

    Args:
        answer: writes the whole response to one request.
    """

    answer: Answer
    port: int = 0
    requests: list[ChatRequest] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """A caller has closed its connection while it was answered."""
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                request = await _request(reader)
                self.requests.append(request)
                self.asked.set()
                answering = asyncio.ensure_future(self.answer(request, writer))
                leaving = asyncio.ensure_future(reader.read(1))
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done() and leaving.done():
                    self.gone.set()
                    answering.cancel()
                leaving.cancel()
                try:
                    await asyncio.gather(answering, leaving, return_exceptions=True)
                    if answering.cancelled() or answering.exception() is not None:
                        self.gone.set()
                        break
                finally:
                    answering.cancel()
        writer.close()


@contextlib.asynccontextmanager
async def chat_worker(answer: Answer) -> AsyncIterator[ChatWorker]:
    """A worker on a port of its own, until the block ends."""
    worker = ChatWorker(answer)
    server = await asyncio.start_server(worker.serve, "127.0.0.1", 0)
    worker.port = server.sockets[0].getsockname()[1]
    try:
        yield worker
    finally:
        server.close()
        server.close_clients()


def whole(body: str, status: str = "200 OK", **headers: str) -> bytes:
    """A whole response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body.encode())}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + f"\r\n\r\n{body}").encode()


def stream_head(**headers: str) -> bytes:
    """The head of a stream of chunks."""
    lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def piece(text: str | bytes) -> bytes:
    """A chunk of a stream; an empty one ends it."""
    data = text.encode() if isinstance(text, str) else text
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _request(reader: asyncio.StreamReader) -> ChatRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.rstrip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return ChatRequest(line, headers, body)
