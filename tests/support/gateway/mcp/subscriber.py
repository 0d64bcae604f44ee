"""Subscribers of resources in both eras, so cheap that a thousand of them fit into one process.

Knows HTTP/1.1 as far as an event stream needs it, and JSON-RPC.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from support.gateway.door import ACCEPT, CLIENT, LATEST, META, Door

if TYPE_CHECKING:
    from support.gateway.door import Era

PATIENCE = 90.0
LONGEST = 1 << 20


@dataclass
class Subscriber:
    """One subscriber with one stream."""

    port: int
    token: str
    uris: list[str]
    era: Era
    honoured: list[str] = field(default_factory=list)
    """What the server says that it will tell of; in the era of sessions what it did not refuse."""
    updated: dict[str, int] = field(default_factory=dict)
    """URI → how often it was said to have changed."""
    lists_changed: dict[str, int] = field(default_factory=dict)
    """`tools`, `prompts` or `resources` → how often that list was said to have changed."""
    ended: bool = False
    _session: str | None = None
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None
    _reading: asyncio.Task[None] | None = None
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _next: int = 0
    _partial: bytes = b""
    _messages: deque[dict[str, Any]] = field(default_factory=deque)

    async def __aenter__(self) -> Self:
        """Subscribe; returns once the server has acknowledged it."""
        if self.era == "sessions":
            await self._open_session()
        else:
            await self._listen()
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._writer is not None:
            self._writer.transport.abort()

    async def until(self, uri: str, count: int = 1) -> None:
        """Return once the resource was said to have changed so often."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: self.updated.get(uri, 0) >= count or self.ended)
        assert self.updated.get(uri, 0) >= count, (uri, self.updated, self.ended)

    async def until_ended(self) -> None:
        """Return once the server has ended the stream."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: self.ended)

    async def until_read(self, uri: str, expected: str) -> None:
        """Read the resource, and again each time that it is said to have changed, until it says that."""
        reading = Door(f"http://127.0.0.1:{self.port}", self.token, "stateless")
        while True:
            seen = self.updated.get(uri, 0)
            if expected in (await asyncio.to_thread(reading.read, uri)).text:
                return
            await self.until(uri, seen + 1)

    async def until_listed(self, tool: str) -> None:
        """List the tools, and again each time that they are said to have changed, until it is among them."""
        listing = Door(f"http://127.0.0.1:{self.port}", self.token, "stateless")
        while True:
            seen = self.lists_changed.get("tools", 0)
            if tool in await asyncio.to_thread(listing.names, "tools"):
                return
            async with asyncio.timeout(PATIENCE), self._news:
                await self._news.wait_for(lambda: self.lists_changed.get("tools", 0) > seen or self.ended)  # noqa: B023 - waited for here
            assert not self.ended

    def stall(self) -> None:
        """Read nothing from now on, and keep the connection."""
        assert self._reading is not None
        assert self._writer is not None
        self._reading.cancel()
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of a stream reads

    def forget(self) -> None:
        """Count from 0 again."""
        self.updated.clear()

    # --- both eras ----------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        params = {
            "notifications": {"resourceSubscriptions": self.uris},
            "_meta": {
                f"{META}protocolVersion": LATEST["stateless"],
                f"{META}clientInfo": CLIENT,
                f"{META}clientCapabilities": {},
            },
        }
        body = {"jsonrpc": "2.0", "id": self._id(), "method": "subscriptions/listen", "params": params}
        self._reader, self._writer = await self._begin("POST", body, {"Mcp-Method": "subscriptions/listen"})
        acknowledged = await self._event()
        assert acknowledged is not None, "the stream has ended"
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged", acknowledged
        self.honoured = list(acknowledged["params"]["notifications"].get("resourceSubscriptions", []))

    async def _open_session(self) -> None:
        params = {"protocolVersion": LATEST["sessions"], "capabilities": {}, "clientInfo": CLIENT}
        headers, _ = await self._exchange({"id": self._id(), "method": "initialize", "params": params})
        self._session = headers["mcp-session-id"]
        await self._exchange({"method": "notifications/initialized"})
        self._reader, self._writer = await self._begin("GET", None, {})
        for uri in self.uris:
            _, said = await self._exchange(
                {"id": self._id(), "method": "resources/subscribe", "params": {"uri": uri}}
            )
            if "error" not in said:
                self.honoured.append(uri)

    def _id(self) -> int:
        self._next += 1
        return self._next

    async def _read(self) -> None:
        try:
            while (message := await self._event()) is not None:
                method = message.get("method", "")
                async with self._news:
                    if method == "notifications/resources/updated":
                        uri = message["params"]["uri"]
                        self.updated[uri] = self.updated.get(uri, 0) + 1
                    elif method.endswith("/list_changed"):
                        kind = method.split("/")[1]
                        self.lists_changed[kind] = self.lists_changed.get(kind, 0) + 1
                    self._news.notify_all()
        finally:
            async with self._news:
                self.ended = True
                self._news.notify_all()

    # --- HTTP ---------------------------------------------------------------------------------------------

    async def _begin(
        self, method: str, body: dict[str, Any] | None, more: dict[str, str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request whose answer is a stream of events; past the head of the answer."""
        reader, writer, status, headers = await self._request(method, body, more)
        assert status == 200, (status, await reader.read(2000))
        assert headers["content-type"].startswith("text/event-stream"), headers
        return reader, writer

    async def _exchange(self, message: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
        """Send one message on a connection of its own; the headers and the message that come back."""
        body = {"jsonrpc": "2.0", **message}
        reader, writer, status, headers = await self._request("POST", body, {"Connection": "close"})
        text = await reader.read(LONGEST)
        writer.close()
        assert status in (200, 202), (status, text)
        if not text:
            return headers, {}
        if headers.get("transfer-encoding") == "chunked":
            text = text.partition(b"\r\n")[2]
        if headers["content-type"].startswith("text/event-stream"):
            text = next(line for line in text.splitlines() if line.startswith(b"data:"))[5:]
        return headers, json.JSONDecoder().raw_decode(text.decode().strip())[0]

    async def _request(
        self, method: str, body: dict[str, Any] | None, more: dict[str, str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, int, dict[str, str]]:
        data = b"" if body is None else json.dumps(body).encode()
        headers = {
            "Host": f"127.0.0.1:{self.port}",
            "Accept": ACCEPT,
            "Authorization": f"Bearer {self.token}",
            "MCP-Protocol-Version": LATEST[self.era],
            **({"Content-Type": "application/json", "Content-Length": str(len(data))} if data else {}),
            **({"Mcp-Session-Id": self._session} if self._session else {}),
            **more,
        }
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=LONGEST)
        lines = [f"{method} /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + data)
        async with asyncio.timeout(PATIENCE):
            first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        received = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in rest if line)
        }
        return reader, writer, int(first.split()[1]), received

    async def _event(self) -> dict[str, Any] | None:
        """The next message of the stream, None at its end."""
        assert self._reader is not None
        while not self._messages:
            try:
                size = int((await self._reader.readuntil(b"\r\n")).strip() or b"0", 16)
                chunk = await self._reader.readexactly(size)
                await self._reader.readexactly(2)
            except (asyncio.IncompleteReadError, ConnectionError):
                return None
            if size == 0:
                return None
            self._partial += chunk.replace(b"\r\n", b"\n")
            *events, self._partial = self._partial.split(b"\n\n")
            for event in events:
                data = b"".join(line[5:].strip() for line in event.splitlines() if line.startswith(b"data:"))
                if data:
                    self._messages.append(json.loads(data))
        return self._messages.popleft()
