"""One turn: what an agent's worker says of it goes into its log as it comes, and into the store as it settles.

What is told is in the turn's journal before. The order of its end: what it made is committed, then it is told that it
is over. While the store is away the turn waits for it. Knows the worker's stream; who may ask is asked before.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.logs.setup import get_logger
from pallas_gateway.conversations.errors import TurnFailedError
from pallas_gateway.conversations.events import Failed, Final, Reset, Text, take_back
from pallas_gateway.conversations.log import TurnLog
from pallas_gateway.conversations.request import field_of
from pallas_gateway.conversations.rows import Draft, entry_of, row_of
from pallas_gateway.conversations.stream_reader import (
    StreamReader,
    TurnEnd,
    Usage,
    WorkerError,
    WrongStreamError,
    read_error,
)
from pallas_gateway.relay.http.errors import RelayError
from pallas_gateway.store.conversations.records import Row
from pallas_gateway.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

    from pallas_common.protocol.agent.incomplete import Reason
    from pallas_gateway.access.audit import Outcome
    from pallas_gateway.conversations.events import Position, TurnEvent
    from pallas_gateway.conversations.keeping.turn_rows import TurnRows
    from pallas_gateway.relay.http.connection import Response
    from pallas_gateway.store.conversations.records import Thread

    type Json = Mapping[str, object]


MOST_EVENTS = 20_000
"""Of one turn, texts aside: a model that calls without end is stopped."""
MOST_CHARACTERS = 16 * 1024 * 1024
"""Of the text of one turn, what was taken back included."""

_log = get_logger("pallas.gateway.conversations")


@dataclass(slots=True, kw_only=True)
class Result:
    """What a turn ended with."""

    turn_index: int
    """Of its last message."""
    content: str
    """All its texts, with a blank line between them."""
    rows: Sequence[Row]
    """All messages behind the user's."""
    usage: Json
    model: str | None
    """That had the last word."""
    reason: Reason | None = None
    """Why it is not a whole one; None where it is."""


class Given(NamedTuple):
    """What a turn begins with."""

    thread: Thread
    turn: str
    """Its id."""
    new: int
    """Index of the user's new message among those that the worker gets."""
    has_message: bool
    """Whether there is one: the worker says it again in what is to be kept."""


@dataclass(eq=False, slots=True, kw_only=True)
class RunningTurn:
    """A turn that is under way, or was until a moment ago."""

    given: Given
    rows: TurnRows
    log: TurnLog = field(default_factory=TurnLog)
    unread: tuple[str, ...] = ()
    """Fields of the request that the gateway does not know."""
    ignored: str | None = None
    """What of the request nobody reads, as the worker's header says it; known with the first event."""
    outcome: Outcome = "ok"
    refusal: Failed | None = None
    """Why the agent did not take it: nothing has happened, and nothing of it is kept."""
    ended: float | None = None
    """On the monotonic clock; None while it is under way."""
    _draft: Draft = field(default_factory=Draft)
    _answer: list[str] = field(default_factory=list)
    _end: TurnEnd | None = None
    _usage: Json = field(default_factory=dict)
    _events: int = 0
    _characters: int = 0
    _result: Result | None = None
    _failure: Failed | None = None
    _why_stopped: str | None = None
    _task: asyncio.Task[None] | None = None

    @property
    def thread(self) -> Thread:
        """Whose turn it is."""
        return self.given.thread

    @property
    def id(self) -> str:
        """Of the turn."""
        return self.given.turn

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens."""
        return self.log.is_over

    def events(self, after: Position | None = None) -> AsyncGenerator[tuple[Position, TurnEvent]]:
        """What has happened behind that place and what happens, to the end: `Final` or `Failed` is the last."""
        return self.log.events(after)

    def batches(
        self, after: Position | None = None, *, silence: float | None = None
    ) -> AsyncGenerator[list[tuple[Position, TurnEvent]]]:
        """The same, all that is there at a time; none of them after so many seconds of silence."""
        return self.log.batches(after, silence=silence)

    def ends_at(self, place: Position) -> bool:
        """Whether who has read so far has read all of it."""
        return self.log.ends_at(place)

    async def result(self) -> Result:
        """What it ends with. Whoever stops waiting does not stop it.

        Raises:
            TurnFailedError: without an answer.
        """
        async for _ in self.log.events():
            pass
        if self._result is None:
            failed = self._failure or Failed("the turn was ended")
            raise TurnFailedError(
                failed.message,
                status=failed.status,
                type=failed.type,
                retry_after=failed.retry_after,
                field=failed.field,
            )
        return self._result

    def stop(self, why: str) -> None:
        """End it; what it has said so far is kept as failed."""
        if self._why_stopped is None and not self.is_over:
            self._why_stopped = why
            if self._task is not None:
                self._task.cancel()

    async def run(self, ask: Callable[[], Awaitable[Response]]) -> None:
        """Run it, to its end; whoever cancels this stops it.

        Args:
            ask: sends the request to the worker.
        """
        self._task = asyncio.current_task()
        if self._why_stopped is not None:  # before it could begin
            await self._fail(self._stopped())
            return
        writing = asyncio.create_task(self.rows.run(), name="rows of a turn")
        try:
            last = await self._run(ask)
        except asyncio.CancelledError:
            if self._task is not None:
                self._task.uncancel()
            self._why_stopped = self._why_stopped or "the gateway was stopped"
            last = self._stopped()
        except Exception as error:  # noqa: BLE001 - whatever it is, its rows must not stay pending
            _log.exception("a turn has failed in the gateway")
            last = Failed(
                f"the gateway has failed ({type(error).__name__}); its log says why", "internal", 500
            )
        self.rows.close()
        await writing  # a write that is under way must not come after the last one
        await (self._finish() if last is None else self._fail(last))
        # It is remembered for a while, by what was told of it: all that is in the store by now is let go.
        self._draft, self._end, self._answer = Draft(), None, []

    async def _run(self, ask: Callable[[], Awaitable[Response]]) -> Failed | None:
        """Follow the worker; why there is no answer."""
        try:
            response = await ask()
            self.ignored = response.headers.get("pallas-ignored")
            if response.body is not None:
                return self._failed(_error_of(response), response.headers.get("retry-after"))
            reader = StreamReader()
            async for piece in response.pieces():
                for event in reader.feed(piece):
                    if isinstance(event, WorkerError):
                        return self._failed(event, None)
                    if (over := self._take(event)) is not None:
                        response.abandon()
                        return over
                if reader.is_done:
                    response.finish()
                    break
        except TurnFailedError as error:
            return Failed(str(error), error.type, error.status, error.retry_after, error.field)
        except WrongStreamError as error:
            return Failed(str(error), "agent_failed", 502)
        except RelayError as error:
            return Failed(f"the agent broke off: {error}", "agent_unreachable", 503)
        if self._end is None:
            return Failed("the agent broke off before the end of its answer", "agent_failed", 503)
        return None

    def _take(self, event: TurnEvent | TurnEnd | Usage) -> Failed | None:
        """One thing that has happened; why the turn is not gone on with."""
        match event:
            case TurnEnd():
                self._end = event
                return None
            case Usage(tokens):
                self._usage = tokens
                return None
            case Text(delta):
                self._characters += len(delta)
                self._answer.append(delta)
            case Reset(characters):
                take_back(self._answer, characters)
        self._events += not isinstance(event, Text)
        if self._events > MOST_EVENTS or self._characters > MOST_CHARACTERS:
            return Failed("the agent's turn has no end: it was stopped", "too_large", 502)
        self.rows.note(entry_of(event))
        if self._draft.take(event):
            self.rows.keep(lambda: self._draft.said)
        self.log.tell(event)
        return None

    async def _finish(self) -> None:
        """Keep what it made, and say that it is over."""
        assert self._end is not None
        try:
            made = [row_of(message) for message in self._end.messages[self.given.has_message :]]
            made = made or [Row(role="assistant", content="")]
            index = await self.rows.finish(made)
        except ValueError as error:
            await self._fail(Failed(f"the agent's answer cannot be kept: {error}", "agent_failed", 502))
            return
        except StoreError as error:
            await self._fail(Failed(f"the answer cannot be kept: {error}", "unavailable", 503))
            return
        if index is None:
            self._tell_failed(Failed("the thread was deleted while the agent worked", "not_found", 404))
            return
        self._result = Result(
            turn_index=index,
            content="".join(self._answer),
            rows=made,
            usage=self._usage,
            model=self._end.model,
            reason=self._end.reason,
        )
        self.log.tell(Final(index, self._end.reason))
        self.log.close()

    async def _fail(self, last: Failed) -> None:
        """Say in the store that it has failed, and to those who follow; a store that is away is made up to later."""
        is_new = not self._answer and not self._events
        if is_new and 400 <= last.status < 500 and last.status != 499:
            self.refusal = last
        try:
            with contextlib.suppress(StoreError):
                if self.refusal is not None:
                    await self.rows.undo()
                else:
                    await self.rows.fail(last.message, self._draft.said)
        finally:  # whatever it is, nobody waits for ever
            self._tell_failed(last)

    def _tell_failed(self, last: Failed) -> None:
        self.outcome = "cancelled" if last.type == "stopped" else "error"
        self._failure = last
        self.log.tell(last)
        self.log.close()

    def _failed(self, error: WorkerError, retry_after: str | None) -> Failed:
        said = field_of(error.param, self.given.new)
        message = error.message
        if error.param is not None and said is not None and said != error.param:
            message = message.replace(error.param, said)
        return Failed(message, error.code, error.status, retry_after or error.retry_after, said)

    def _stopped(self) -> Failed:
        return Failed(self._why_stopped or "stopped", "stopped", 499)


def _error_of(response: Response) -> WorkerError:
    """What an answer says that is no stream."""
    try:
        document = json.loads(response.body or b"")
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        document = {}
    if response.status == 200:
        raise WrongStreamError("the agent answered a whole completion where a stream was asked for")
    return read_error(document, response.status)
