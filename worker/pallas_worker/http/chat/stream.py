"""A turn as server-sent events: it begins with the first thing that happens, and ends with `[DONE]` or an error.

Knows ASGI's messages and the events' order in time; their shapes are in `interface/chat/answers`. A reader who does not
read is not timed here: `Connections` closes what takes nothing for a minute, and the turn ends with the connection.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from pallas_common.protocol.agent.completion import ignored_header
from pallas_worker.http.chat.event_queue import EventQueue
from pallas_worker.interface.chat.answers import chunk_of, first_chunk, last_chunks, retry_chunk
from pallas_worker.interface.chat.errors import TOO_SLOW, ApiError, error_of
from pallas_worker.interface.errors import FailedTurn
from pallas_worker.interface.turn import Ignored, TakenBack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from starlette.types import Send

    from pallas_worker.interface.chat.answers import Head
    from pallas_worker.interface.turn import TurnEvent, TurnResult

    type Tell = Callable[[TurnEvent], None]
    type Room = Callable[[], Awaitable[None]]
    type RunTurn = Callable[[Tell, Room], Coroutine[None, None, TurnResult]]
    """Runs the turn, told where to tell what happens and where to wait for room."""
    type Respond = Callable[[ApiError, Mapping[str, str]], Awaitable[None]]
    """Answers with an error instead of a stream, with these headers."""

FIRST_WAIT = 10.0
"""Seconds after which the response begins although nothing has happened yet: proxies give up after some 30 to 60."""
KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent."""

_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Where clients that split text into lines do so as well, although events end at CR and LF alone."""
_COMMENT = b": waiting\n\n"
_DONE = b"data: [DONE]\n\n"


class Stream:
    """One response that is a stream of events.

    Args:
        ignored: what of the request nobody reads; what the turn's event says comes to it.
        headers: of the response, beside those of every stream.
        detailed: the reader may see what is in the log.
    """

    def __init__(
        self,
        head: Head,
        ignored: list[str],
        headers: Mapping[str, str],
        send: Send,
        *,
        include_usage: bool,
        detailed: bool = False,
    ) -> None:
        self._detailed = detailed
        self._head = head
        self._ignored = ignored
        self._headers = headers
        self._send = send
        self._include_usage = include_usage
        self._begun = False
        self._overflowed = False
        self._sending = asyncio.Lock()

    async def run(self, run_turn: RunTurn, respond: Respond) -> None:
        """Run the turn in the running task, and send what happens, to its end."""
        self._running = asyncio.current_task()
        queue = EventQueue(self._overflow)
        telling = asyncio.create_task(self._tell_on(queue))
        try:
            ending = await self._ending(run_turn, queue)
            # Here and not in the task beside: whatever else is ready to run would come before the end is sent.
            async with self._sending:
                queue.close()
                await self._finish(self._chunks(queue.take()), ending, respond)
        finally:
            queue.close()
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _ending(self, run_turn: RunTurn, queue: EventQueue) -> TurnResult | ApiError:
        try:
            return await run_turn(queue.tell, queue.room)
        except FailedTurn as failed:
            return error_of(failed, detailed=self._detailed)
        except asyncio.CancelledError:
            if not self._overflowed or self._running is None or self._running.uncancel():
                raise
            return TOO_SLOW

    def _overflow(self) -> None:
        if not self._overflowed and self._running is not None:
            self._overflowed = True
            self._running.cancel()

    async def _tell_on(self, queue: EventQueue) -> None:
        """Send what happens while the turn runs; where nothing does, a comment."""
        while True:
            await queue.wait(KEEP_ALIVE if self._begun else FIRST_WAIT)
            async with self._sending:
                if queue.closed:
                    return
                events = queue.take()
                if chunks := self._chunks(events):
                    await self._write(_events(chunks))
                elif not events:
                    await self._write(_COMMENT)

    def _chunks(self, events: Iterable[TurnEvent]) -> list[Mapping[str, object]]:
        chunks: list[Mapping[str, object]] = []
        for event in events:
            if isinstance(event, Ignored):
                self._ignored += event.parameters
            elif isinstance(event, TakenBack):
                chunks.append(retry_chunk(self._head, event))
            elif (chunk := chunk_of(self._head, event)) is not None:
                chunks.append(chunk)
        return chunks

    async def _finish(
        self, chunks: list[Mapping[str, object]], ending: TurnResult | ApiError, respond: Respond
    ) -> None:
        if not isinstance(ending, ApiError):
            chunks += last_chunks(self._head, ending, self._ignored, include_usage=self._include_usage)
            await self._write(_events(chunks) + _DONE, more=False)
        elif self._begun or chunks:
            await self._write(_events([*chunks, ending.document()]), more=False)
        else:
            await respond(ending, ignored_header(self._ignored))

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        if not self._begun:
            self._begun = True
            headers = {
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",
                **self._headers,
                **ignored_header(self._ignored),
            }
            raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
            await self._send({"type": "http.response.start", "status": 200, "headers": raw})
            data = data if data == _COMMENT else _events([first_chunk(self._head)]) + data
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


def _events(documents: Iterable[Mapping[str, object]]) -> bytes:
    return b"".join(b"data: %s\n\n" % encoded(document) for document in documents)


def encoded(document: Mapping[str, object]) -> bytes:
    """The document as JSON, on one line. What agents and models say may hold anything that Python can."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.translate(_LINE_ENDS).encode("utf-8", "replace")
