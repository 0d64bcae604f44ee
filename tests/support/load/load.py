"""Many HTTP clients that keep their connections and call agents without a pause: what a restart must not lose.

Knows HTTP/1.1 through h11 and asyncio; nothing of fleets. A light client: it shares the cores with what it loads.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import h11

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PATIENCE = 60.0
_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "send_message", "arguments": {"message": "still there?"}},
}


@dataclass
class Outcome:
    """What became of the requests."""

    answered: dict[int, int] = field(default_factory=dict)
    """Good answers by port."""
    refused: list[str] = field(default_factory=list)
    """Connections that could not be made."""
    lost: list[str] = field(default_factory=list)
    """Requests whose connection ended without a whole answer."""
    wrong: list[str] = field(default_factory=list)
    """Answers that are none: another status, another text."""

    @property
    def total(self) -> int:
        """All good answers."""
        return sum(self.answered.values())

    @property
    def failed(self) -> list[str]:
        """All that went wrong."""
        return [*self.refused, *self.lost, *self.wrong]


class Load:
    """`clients` callers at a time, in turn at the given ports of 127.0.0.1.

    Args:
        reuse: seconds after a request within which another one may use its connection. A worker that drains closes
            one that has been idle for about a second, and a client may stand still for as long.
    """

    def __init__(
        self,
        ports: Sequence[int],
        *,
        clients: int,
        message: str = "still there?",
        reuse: float = math.inf,
    ) -> None:
        self.outcome = Outcome()
        self.news = asyncio.Condition()
        self._ports = ports
        self._clients = clients
        self._message = message
        self._reuse = reuse
        self._enough = asyncio.Event()

    async def run(self, requests: int) -> Outcome:
        """Send so many requests, or until `stop`."""
        numbers = iter(range(requests))
        async with asyncio.TaskGroup() as group:
            for number in range(self._clients):
                group.create_task(self._client(self._ports[number % len(self._ports)], numbers))
        return self.outcome

    def stop(self) -> None:
        """Send no further request."""
        self._enough.set()

    async def until(self, answered: int) -> None:
        """Return once so many good answers have come."""
        async with self.news:
            await self.news.wait_for(lambda: self.outcome.total >= answered)

    async def _client(self, port: int, numbers: Iterator[int]) -> None:
        connection: _Connection | None = None
        for _ in numbers:
            if self._enough.is_set():
                break
            if connection is not None and time.monotonic() - connection.asked > self._reuse:
                connection.close()
                connection = None
            try:
                if connection is None:
                    connection = await _Connection.open(port)
            except OSError as error:
                self.outcome.refused.append(repr(error))
                continue
            try:
                async with asyncio.timeout(PATIENCE):
                    status, text, kept = await connection.ask(self._message)
            except (OSError, EOFError, TimeoutError, h11.ProtocolError) as error:
                self.outcome.lost.append(repr(error))
                connection.close()
                connection = None
                continue
            if not kept:
                connection.close()
                connection = None
            await self._note(port, status, text)
        if connection is not None:
            connection.close()

    async def _note(self, port: int, status: int, text: str) -> None:
        if status == 200 and self._message in text:
            self.outcome.answered[port] = self.outcome.answered.get(port, 0) + 1
        else:
            self.outcome.wrong.append(f"{status} {text[:300]}")
        async with self.news:
            self.news.notify_all()


class _Connection:
    def __init__(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._port = port
        self._reader = reader
        self._writer = writer
        self._state = h11.Connection(h11.CLIENT)
        self.asked = math.inf
        """When its newest request was sent, on the monotonic clock."""

    @classmethod
    async def open(cls, port: int) -> _Connection:
        return cls(port, *await asyncio.open_connection("127.0.0.1", port))

    def close(self) -> None:
        self._writer.close()

    async def ask(self, message: str) -> tuple[int, str, bool]:
        """Status and body of the answer, and whether the connection may be used again."""
        self.asked = time.monotonic()
        call = {**_CALL, "params": {"name": "send_message", "arguments": {"message": message}}}
        body = json.dumps(call).encode()
        headers = [
            ("Host", f"127.0.0.1:{self._port}"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2025-11-25"),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
        ]
        request = self._state.send(h11.Request(method="POST", target="/mcp", headers=headers))
        data = self._state.send(h11.Data(data=body))
        end = self._state.send(h11.EndOfMessage())
        self._writer.write((request or b"") + (data or b"") + (end or b""))
        await self._writer.drain()
        status, parts = 0, bytearray()
        while True:
            event = self._state.next_event()
            if event is h11.NEED_DATA:
                received = await self._reader.read(65536)
                if not received and self._state.their_state is h11.SEND_RESPONSE:
                    raise EOFError("the connection was closed before the answer")
                self._state.receive_data(received)
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                parts += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
        kept = self._state.our_state is h11.DONE and self._state.their_state is h11.DONE
        if kept:
            self._state.start_next_cycle()
        return status, parts.decode(), kept
