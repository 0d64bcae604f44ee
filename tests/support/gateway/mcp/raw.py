"""Requests of MCP over HTTP as they go over the wire, for both eras, and what is streamed back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import httpx

VERSION = "2026-07-28"
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

type Raw = tuple[bytes, dict[str, str]]


def stateless(method: str, *, request: int | str = 1, **params: Any) -> Raw:
    """Body and headers of a request of 2026-07-28."""
    meta = {**META, **params.pop("_meta", {})}
    body = {"jsonrpc": "2.0", "id": request, "method": method, "params": {**params, "_meta": meta}}
    headers = {**ACCEPT, "mcp-protocol-version": VERSION, "mcp-method": method}
    if method in NAMED_BY:
        headers["mcp-name"] = params[NAMED_BY[method]]
    return json.dumps(body).encode(), headers


async def post(client: httpx.AsyncClient, url: str, raw: Raw, who: str = "someone") -> httpx.Response:
    """Send it."""
    body, headers = raw
    return await client.post(url, content=body, headers={**headers, "x-principal": who})


class Events:
    """What a stream brings."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()
        self.tags: set[Any] = set()

    async def next(self) -> Any:
        """The next message."""
        async with asyncio.timeout(60):
            async for line in self._lines:
                if line.startswith("data: "):
                    return json.loads(line.removeprefix("data: "))
        raise EOFError

    async def told(self, count: int | None = None) -> list[tuple[str, str | None]]:
        """Method and URI of the next notifications, or of all until the end."""
        found: list[tuple[str, str | None]] = []
        with contextlib.suppress(EOFError):
            while count is None or len(found) < count:
                message = await self.next()
                if "method" in message:
                    params = message.get("params", {})
                    self.tags.add(params.get("_meta", {}).get("io.modelcontextprotocol/subscriptionId"))
                    found.append((message["method"], params.get("uri")))
        return found

    async def ended(self) -> bool:
        """Whether there is nothing more."""
        async with asyncio.timeout(60):
            return [line async for line in self._lines if line.startswith("data: ")] == []


@contextlib.asynccontextmanager
async def listening(
    client: httpx.AsyncClient, url: str, wanted: Mapping[str, Any], *, request: int | str = 1
) -> AsyncIterator[Events]:
    """A stream of `subscriptions/listen`."""
    body, headers = stateless("subscriptions/listen", request=request, notifications=wanted)
    async with client.stream("POST", url, content=body, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        yield Events(response)


@dataclass
class Session:
    """A session of 2025-11-25."""

    client: httpx.AsyncClient
    url: str
    id: str
    who: str
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def headers(self) -> dict[str, str]:
        """Of every request in it."""
        return {
            **ACCEPT,
            "mcp-session-id": self.id,
            "mcp-protocol-version": "2025-11-25",
            "x-principal": self.who,
        }

    async def post(self, message: Any) -> httpx.Response:
        """Send a message."""
        return await self.client.post(self.url, json=message, headers=self.headers)

    async def ask(self, method: str, **params: Any) -> Any:
        """The response to a request."""
        message = {"jsonrpc": "2.0", "id": next(self.numbers), "method": method, "params": params}
        return (await self.post(message)).json()

    @contextlib.asynccontextmanager
    async def events(self) -> AsyncIterator[Events]:
        """Its stream."""
        async with self.client.stream("GET", self.url, headers=self.headers) as response:
            assert response.status_code == 200, await response.aread()
            yield Events(response)


INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    },
}


async def open_session(client: httpx.AsyncClient, url: str, who: str = "someone") -> Session:
    """A new one."""
    opened = await client.post(url, json=INITIALIZE, headers={**ACCEPT, "x-principal": who})
    return Session(client, url, opened.headers["mcp-session-id"], who)
