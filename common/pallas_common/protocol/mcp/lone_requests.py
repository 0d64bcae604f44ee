"""Requests of MCP that stand alone: no session, no version, no word of event streams. Each is answered with JSON.

`curl` and simple scripts send them. Knows HTTP, events and the outside of JSON-RPC; nothing of methods. A client of the
protocol lists `text/event-stream` in Accept, so that it is never taken for one of these.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Send

_OF_PROTOCOL = ("mcp-protocol-version", "mcp-session-id")
_META_VERSION = "io.modelcontextprotocol/protocolVersion"

LARGEST = 64 * 1024 * 1024
"""Bytes of an answer that is made JSON of."""

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


def may_stand_alone(headers: Mapping[str, str]) -> bool:
    """Return whether the head of a POST is that of a request that stands alone."""
    if any(name in headers for name in _OF_PROTOCOL):
        return False
    accept = headers.get("accept")
    if accept is None:
        return True
    kinds = {each.partition(";")[0].strip().lower() for each in accept.split(",")}
    return "text/event-stream" not in kinds and not kinds.isdisjoint(
        {"application/json", "application/*", "*/*"}
    )


def stands_alone(method: object, params: object) -> bool:
    """Return whether a message with such a head stands alone: it opens no session, and says no version itself."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return method != "initialize" and not (isinstance(meta, dict) and _META_VERSION in meta)


class JsonAnswer:
    """Sends on an answer, and makes JSON of one that is a stream of events: its last message alone."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._unread = b""
        self._answer: bytes | None = None

    async def send(self, message: Message) -> None:
        """Take a part of the answer."""
        if message["type"] == "http.response.start" and _is_stream(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        elif message["type"] == "http.response.body":
            self._read(message.get("body", b""))
            if not message.get("more_body", False):
                await self._end(self._start)

    def _read(self, piece: bytes) -> None:
        *events, self._unread = _EVENT_END.split(self._unread + piece)
        if len(self._unread) > LARGEST:
            self._unread = b""
            self._answer = _failure(
                f"the answer is larger than {LARGEST} bytes; take it as a stream of events"
            )
        for event in events:
            lines = (line for line in event.splitlines() if line.startswith(b"data:"))
            data = b"\n".join(line.removeprefix(b"data:").removeprefix(b" ") for line in lines)
            if _is_answer(data):
                self._answer = data

    async def _end(self, start: Message) -> None:
        body = self._answer or _failure("the answer broke off")
        replaced = (b"content-type", b"content-length", b"cache-control", b"x-accel-buffering")
        headers = [header for header in start.get("headers", ()) if header[0].lower() not in replaced]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _is_stream(start: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in start.get("headers", ())
    )


def _is_answer(data: bytes) -> bool:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)
    )


def _failure(message: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": message}}).encode()
