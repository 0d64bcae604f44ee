"""What happens in a turn as server-sent events: framed as the reference has it, ended by `[DONE]` however it ends.

A reader who does not read is waited for, and costs nothing meanwhile: the turn's log is everybody's. It is not timed
here: `Connections` cuts off who takes nothing for a minute.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

from pallas_common.protocol.agent.completion import ignored_header
from pallas_gateway.access.limits import RETRY_PLACE, LimitExceededError
from pallas_gateway.conversations.events import Failed
from pallas_gateway.conversations.log import LARGEST_BATCH
from pallas_gateway.http.api.conversations.answers import json_bytes, json_text
from pallas_gateway.http.api.conversations.documents import chunk
from pallas_gateway.http.errors import CUT_OFF, ApiError, last_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.types import Send

    from pallas_gateway.conversations.events import Position
    from pallas_gateway.conversations.turn import RunningTurn
    from pallas_gateway.identity.principal import Principal

THREAD_HEADER = "pallas-thread"
IGNORED_HEADER = "pallas-ignored"

MOST_FOLLOWERS = 32
"""Streams that follow turns, of one principal."""

KEEP_ALIVE = 10.0
"""Seconds without an event after which a comment is sent: proxies give up a silent answer after some 30 to 60. With the
first one the answer begins; until then an error has its own status."""

EVENT_STREAM = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
_COMMENT = b": waiting\n\n"
_DONE = b"data: [DONE]\n\n"
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Where clients that split text into lines do so as well, although events end at CR and LF alone."""


class Followers:
    """Who follows turns: of one principal so many streams, for they hold no place in its limits."""

    def __init__(self) -> None:
        self._streams: Counter[str] = Counter()

    @contextmanager
    def one_more(self, principal: Principal) -> Iterator[None]:
        """Count a stream for as long as it is open.

        Raises:
            LimitExceededError: the principal follows as much as it may.
        """
        if self._streams[principal.id] >= MOST_FOLLOWERS:
            raise LimitExceededError(
                "concurrency",
                f"{MOST_FOLLOWERS} streams of {principal.name} follow turns already",
                RETRY_PLACE,
            )
        self._streams[principal.id] += 1
        try:
            yield
        finally:
            self._streams[principal.id] -= 1
            if not self._streams[principal.id]:
                del self._streams[principal.id]


async def send_turn(
    running: RunningTurn, send: Send, *, after: Position | None = None, with_ids: bool = False
) -> None:
    """Send what happens in a turn, from that place on, to its end.

    Args:
        with_ids: say with each event where it is, so that `Last-Event-ID` can go on behind it.

    Raises:
        ApiError: the turn of who asked for it has failed before anything was told.
    """
    begun = False

    async def write(data: bytes, *, more: bool = True) -> None:
        nonlocal begun
        if not begun:
            begun = True
            own = [(name.encode(), value.encode()) for name, value in headers_of(running).items()]
            await send({"type": "http.response.start", "status": 200, "headers": [*EVENT_STREAM, *own]})
        await send({"type": "http.response.body", "body": data, "more_body": more})

    try:
        async with aclosing(running.batches(after, silence=KEEP_ALIVE)) as happening:
            async for happened in happening:
                if not begun and not with_ids and happened and isinstance(failed := happened[0][1], Failed):
                    raise failure_of(failed, running)
                data = _COMMENT if not happened else b""
                for position, event in happened:
                    if with_ids:
                        data += f"id: {position.text(running.id)}\n".encode()
                    data += b"data: %s\n\n" % _encoded(chunk(event, running.thread.id))
                    if len(data) > LARGEST_BATCH:  # what many calls were made with, for one who comes late
                        await write(data)
                        data = b""
                if data:
                    await write(data)
    except asyncio.CancelledError:
        if begun:
            cut_off = chunk(Failed(CUT_OFF), running.thread.id)
            await last_words(send, b"data: %s\n\n%s" % (_encoded(cut_off), _DONE))
        raise
    await write(_DONE, more=False)


def headers_of(running: RunningTurn) -> Mapping[str, str]:
    """What the head of an answer says of a turn."""
    found = {THREAD_HEADER: running.thread.id}
    ignored = [*ignored_header(running.unread).values(), *([running.ignored] if running.ignored else [])]
    if ignored:
        found[IGNORED_HEADER] = ", ".join(ignored).encode("ascii", "replace").decode()
    return found


def failure_of(event: Failed, running: RunningTurn) -> ApiError:
    """The error for a turn that has ended without an answer."""
    headers = dict(headers_of(running))
    if event.retry_after is not None:
        headers["retry-after"] = event.retry_after
    status = event.status if 400 <= event.status < 600 else 502
    return ApiError(status, event.type, event.message, field=event.field, headers=headers)


def _encoded(document: Mapping[str, object]) -> bytes:
    """As JSON on one line. What agents and models say may hold anything that Python can."""
    text = json_text(document)
    # Most pieces have nothing to be replaced.
    return json_bytes(text if text.isascii() else text.translate(_LINE_ENDS))
