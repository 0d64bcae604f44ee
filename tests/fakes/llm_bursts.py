"""A fake of LLM providers that sends all of a streamed answer at once, or stops in the middle of it.

For OpenAI's two APIs and Anthropic's, with texts of any number of pieces, made once. Notes when it has sent something
and when a client's connection has ended. Beside `llm_stub` it is fast, and it says nothing but words.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 60.0

type Hold = Literal["nothing", "head", "middle"]
"""What a request waits for before its answer goes on, for ever: nothing; its head comes late; half of it has come."""


def answer_of(pieces: int) -> str:
    """What is said in so many pieces."""
    return "".join(_words(pieces))


def _words(pieces: int) -> list[str]:
    return [f"word{number} " for number in range(pieces)]


@dataclass
class Exchange:
    """One request, as it went; times are of the monotonic clock."""

    path: str
    sent: float | None = None
    """When the first of the answer left."""
    closed: float | None = None
    """When the client's connection had ended."""
    body: dict[str, Any] = field(default_factory=dict, repr=False)


class Bursts:
    """A running fake."""

    def __init__(self, pieces: int, hold: Hold) -> None:
        self.pieces = pieces
        self.hold: Hold = hold
        """May be changed while it runs."""
        self.port = 0
        self.exchanges: list[Exchange] = []
        self.upgrades = 0
        """Requests for a WebSocket; there is none."""
        self._streams = {
            "/v1/chat/completions": _chat(pieces),
            "/v1/responses": _responses(pieces),
            "/v1/messages": _messages(pieces),
        }
        self._changed = threading.Condition()
        self.ready = threading.Event()
        """It listens."""
        self._stopping = asyncio.Event()

    @property
    def openai_url(self) -> str:
        """`base_url` for OpenAI's clients."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic_url(self) -> str:
        """`base_url` for Anthropic's clients."""
        return f"http://127.0.0.1:{self.port}"

    def wait_for(self, matches: Callable[[list[Exchange]], bool]) -> None:
        """Wait until `matches` is true of the exchanges so far; call it from a thread, not from a loop.

        Raises:
            TimeoutError: it did not become true.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: matches(self.exchanges), PATIENCE):
                raise TimeoutError(f"not seen: {self.exchanges}")

    async def run(self) -> None:
        """Serve until `stop`."""
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await self._stopping.wait()
        server.close()

    def stop(self) -> None:
        """End `run`; call it from a thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)

    def _note(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of one connection."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
            path = head[0].split()[1].partition("?")[0]
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            pieces = self._streams.get(path)
            self.upgrades += "upgrade" in headers
            if pieces is None or not body:
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            else:
                exchange = Exchange(path, body=json.loads(body))
                self.exchanges.append(exchange)
                self._note()
                await self._answer(exchange, pieces, reader, writer)
        with contextlib.suppress(OSError):
            writer.close()
            await writer.wait_closed()

    async def _answer(
        self,
        exchange: Exchange,
        pieces: list[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        gone = asyncio.create_task(reader.read(1))
        try:
            if self.hold == "head":
                await gone
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            half = self.hold == "middle"
            exchange.sent = time.monotonic()
            self._note()
            writer.write(b"".join(pieces[: len(pieces) // 2] if half else pieces))
            await (gone if half else writer.drain())
        finally:
            if gone.done():
                exchange.closed = time.monotonic()
            gone.cancel()
            self._note()


@contextmanager
def run_bursts(pieces: int, hold: Hold = "nothing") -> Iterator[Bursts]:
    """Run a fake until the block ends; see `answer_of` for what it says."""
    bursts = Bursts(pieces, hold)
    thread = threading.Thread(target=asyncio.run, args=(bursts.run(),), name="bursts", daemon=True)
    thread.start()
    assert bursts.ready.wait(PATIENCE)
    try:
        yield bursts
    finally:
        bursts.stop()
        thread.join(PATIENCE)


def _chat(pieces: int) -> list[bytes]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "stub-model"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _event({**head, "choices": [choice]})

    usage = {"prompt_tokens": 1, "completion_tokens": pieces, "total_tokens": pieces + 1}
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": word}) for word in _words(pieces)),
        chunk({}, "stop"),
        _event({**head, "choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def _messages(pieces: int) -> list[bytes]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "stub-model", "content": []}
    head = {**message, "stop_reason": None, "stop_sequence": None}
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**head, "usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
            for word in _words(pieces)
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": pieces}},
        {"type": "message_stop"},
    ]
    return [_event(event, named=True) for event in events]


def _responses(pieces: int) -> list[bytes]:
    response: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 0, "model": "stub-model"}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    empty = {"type": "output_text", "text": "", "annotations": []}
    part = {**empty, "text": answer_of(pieces)}
    item = {"type": "message", "id": "msg_1", "role": "assistant"}
    begun = {**item, "status": "in_progress", "content": []}
    done = {**item, "status": "completed", "content": [part]}
    usage: dict[str, Any] = {"input_tokens": 1, "output_tokens": pieces, "total_tokens": pieces + 1}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.content_part.added", **place, "part": empty},
        *(
            {"type": "response.output_text.delta", **place, "delta": word, "logprobs": []}
            for word in _words(pieces)
        ),
        {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {
            "type": "response.completed",
            "response": {**response, "status": "completed", "output": [done], "usage": usage},
        },
    ]
    return [_event({**event, "sequence_number": n}, named=True) for n, event in enumerate(events)]


def _event(data: dict[str, Any], *, named: bool = False) -> bytes:
    name = f"event: {data['type']}\n" if named else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()
