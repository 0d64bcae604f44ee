"""A worker's chat completions, as a test says them: on a real port, each request answered by the test itself."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.gateway import AgentUpstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

type Json = dict[str, Any]

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\npallas-ignored: seed\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


def text(content: str) -> Json:
    return {"choices": [{"index": 0, "delta": {"content": content}}]}


def told(**pallas: Any) -> Json:
    return {"choices": [{"index": 0, "delta": {}}], "pallas": pallas}


def call(id_: str, tool: str = "sums__add", agent: str = "jarvis", **arguments: Any) -> Json:
    return told(type="tool_call", agent=agent, id=id_, server="sums", tool=tool, arguments=arguments)


def result(id_: str, said: str, tool: str = "sums__add", agent: str = "jarvis", *, ok: bool = True) -> Json:
    return told(type="tool_result", agent=agent, id=id_, server="sums", tool=tool, ok=ok, text=said)


def end(*messages: Json) -> tuple[Json, Json]:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return told(type="turn", messages=list(messages), usage=[], ignored=[]), {"choices": [], "usage": usage}


@dataclass
class Exchange:
    """One request that a test answers."""

    body: Json
    headers: Mapping[str, str]
    _writer: asyncio.StreamWriter
    _reader: asyncio.StreamReader
    done: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether the answer is whole: the next request may come."""
    _begun: bool = False

    async def say(self, *chunks: Json) -> None:
        """Send chunks of a stream."""
        if not self._begun:
            self._begun = True
            self._writer.write(HEAD)
        for chunk in chunks:
            self._frame(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await self._writer.drain()

    async def finish(self, answer: str, *before: Json) -> None:
        """End the turn with these messages and the answer behind the user's."""
        last = self.body["messages"][-1]
        new = [last] if last["role"] == "user" else []
        await self.say(*end(*new, *before, {"role": "assistant", "content": answer}))
        self._frame(b"data: [DONE]\n\n")
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()
        self.done.set()

    async def refuse(self, status: int, document: Json, **headers: str) -> None:
        """Answer with an error."""
        body = json.dumps(document).encode()
        lines = {"content-type": "application/json", "content-length": str(len(body)), **headers}
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
        self._writer.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body)
        await self._writer.drain()
        self.done.set()

    def break_off(self) -> None:
        """Close the connection."""
        self._writer.transport.abort()

    async def gone(self) -> None:
        """Wait until the gateway has closed the connection."""
        async with asyncio.timeout(10):
            while await self._reader.read(1000):
                pass

    def _frame(self, data: bytes) -> None:
        self._writer.write(b"%x\r\n%s\r\n" % (len(data), data))


@dataclass
class ChatWorker:
    """The worker, and the way to it."""

    port: int = 0
    exchanges: asyncio.Queue[Exchange] = field(default_factory=asyncio.Queue)
    key: str | None = "key"
    refreshed: int = 0
    away: str | None = None
    client: Any = None

    async def next(self) -> Exchange:
        """The next request."""
        async with asyncio.timeout(10):
            return await self.exchanges.get()

    async def upstream(self, agent: str) -> AgentUpstream | None:
        if agent != "jarvis":
            return None
        return AgentUpstream(name=agent, uid=None, port=self.port, socket=None, key=self.key)

    async def refresh(self) -> bool:
        self.refreshed += 1
        return True


@asynccontextmanager
async def chat_worker() -> AsyncIterator[ChatWorker]:
    """A worker called jarvis."""
    worker = ChatWorker()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")[1:-2]
                headers = {
                    name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
                }
                body = await reader.readexactly(int(headers["content-length"]))
                exchange = Exchange(json.loads(body), headers, writer, reader)
                worker.exchanges.put_nowait(exchange)
                await exchange.done.wait()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    worker.port = server.sockets[0].getsockname()[1]
    try:
        yield worker
    finally:
        server.close()
