"""All turns that are under way in this process: begun once for each thread at a time, ended with what they belong to.

A turn goes on when its client goes away. It ends when it is stopped, when the token that asked for it counts no more,
and with this process; what a process has left behind, the next one puts in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_gateway.access.audit import AuditUnavailableError, Entry
from pallas_gateway.conversations.errors import BusyError, NoSuchThreadError, RequestError, TakenError
from pallas_gateway.conversations.keeping.turn_rows import TurnRows
from pallas_gateway.conversations.left import LeftTurns
from pallas_gateway.conversations.rows import messages_of, row_of
from pallas_gateway.conversations.turn import Given, RunningTurn
from pallas_gateway.conversations.worker import ACCEPT_HEADER, dumped, way_to
from pallas_gateway.store.conversations import threads, turns
from pallas_gateway.store.conversations.messages import list_messages
from pallas_gateway.store.conversations.records import NothingToRedoError, ThreadBusyError, ThreadGoneError
from pallas_gateway.store.errors import StoreError
from pallas_gateway.store.usage import UNBOUNDED, Room, check_room

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from pallas_gateway.access.audit import Audit
    from pallas_gateway.conversations.keeping.journal import Journals
    from pallas_gateway.conversations.keeping.processes import Processes
    from pallas_gateway.conversations.request import ChatRequest
    from pallas_gateway.conversations.worker import Ways, WorkerChats
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.identity.in_flight import InFlight
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.relay.http.connection import Response
    from pallas_gateway.store.conversations.records import Begun, Row, Thread
    from pallas_gateway.store.database import Store

REMEMBERED = 60.0
"""Seconds for which a turn that has ended can still be followed, by those who were cut off before its end."""
MOST_WAITING = 16
"""Requests that wait for the turn of one thread."""
LOOK_AGAIN = 0.5
"""Seconds between two looks at a turn of another process."""
RECOVER_INTERVAL = 5.0
"""Seconds between two looks for turns that nobody works on."""

_log = get_logger("pallas.gateway.conversations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A turn that somebody wants, who may have it."""

    principal: Principal
    agent: AgentRecord
    request: ChatRequest
    thread: Thread | None = None
    """None for a new one."""
    session: str | None = None
    """The caller's own name of a new one."""
    request_id: str
    trace_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """For the worker, besides the usual ones."""


class Turns:
    """The turns of this process.

    Args:
        room: how much may be kept.
        hold: counts a turn in its principal's limits; gives the function that ends that.
        changed: is told of each thread that has changed, after it has.
        observe: is told of each turn that has ended: seconds and outcome.
    """

    def __init__(
        self,
        store: Store,
        workers: WorkerChats,
        directory: Ways,
        processes: Processes,
        journals: Journals,
        in_flight: InFlight,
        audit: Audit,
        *,
        hold: Callable[[Principal], Callable[[], None]],
        room: Room = UNBOUNDED,
        changed: Callable[[Thread], object] = lambda _: None,
        observe: Callable[[float, str], object] = lambda _, __: None,
    ) -> None:
        self._store = store
        self._workers = workers
        self._directory = directory
        self._processes = processes
        self._journals = journals
        self._in_flight = in_flight
        self._audit = audit
        self._hold = hold
        self._room = room
        self._changed = changed
        self._observe = observe
        self._turns: dict[tuple[str, str], RunningTurn] = {}
        """The newest of each thread, by tenant and thread."""
        self._left = LeftTurns(store, processes, journals, changed)
        self._waiting = Counter[tuple[str, str]]()
        """How many requests wait for a thread."""
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, tenant: str, thread: str) -> RunningTurn | None:
        """The turn of a thread that is under way here, or was until a minute ago."""
        return self._turns.get((tenant, thread))

    @property
    def under_way(self) -> int:
        """How many there are."""
        return len(self._tasks)

    async def start(self, ask: Ask) -> RunningTurn:
        """Begin a turn: what was asked is committed when this returns, and the agent is being asked.

        Raises:
            BusyError: another turn of the thread is under way, and is not to be waited for.
            NoSuchThreadError: the thread is gone.
            RequestError: there is no turn to take again.
            StoreError, AuditUnavailableError: it cannot be kept, for want of room too, or not be written down.
        """
        self._audit.check()
        turn = uuid.uuid4().hex
        self._left.active.add(turn)
        try:
            begun, asked = await self._begun(ask, turn)
            entry = _entry(ask, begun.thread)
            self._audit.begin(entry)
        except BaseException:
            # Begun all the same, maybe, by a commit whose answer was lost: `recover` finds it, as it is not active.
            self._left.active.discard(turn)
            raise
        self._changed(begun.thread)
        running, body = self._made(ask, begun, asked, turn)
        self._turns[running.thread.tenant, running.thread.id] = running
        task = asyncio.create_task(self._run(ask, running, body, entry), name="turn")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return running

    async def stop(self, tenant: str, thread: str, why: str = "stopped") -> bool:
        """End the turn of a thread, and wait until it has; False where none is under way here."""
        running = self.of(tenant, thread)
        if running is None or running.is_over:
            return False
        running.stop(why)
        async for _ in running.events():
            pass
        return True

    def stop_of_agent(self, key: str, why: str) -> None:
        """End the turns of all threads with an agent that are under way here, without waiting for it.

        Args:
            key: the agent's `agent_key`.
        """
        for running in self._turns.values():
            if running.thread.agent_key == key:
                running.stop(why)

    async def drain(self, seconds: float) -> None:
        """Wait for what is under way; what is not over by then is stopped."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for running in self._turns.values():
            running.stop("the gateway was restarted")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2.0)

    async def recover(self) -> None:
        """Put in order what is under way in the store and nobody works on, now and from time to time, until cancelled.

        That is what a process left that is dead, and what of this one could not be written when it ended.
        """
        complained = False
        while True:
            try:
                await self._left.put_in_order()
                complained = False
            except StoreError as error:
                if not complained:
                    complained = True
                    _log.warning(f"turns that a process may have left cannot be looked for yet: {error}")
            self._forget()
            await asyncio.sleep(RECOVER_INTERVAL)

    def _forget(self) -> None:
        before = time.monotonic() - REMEMBERED
        for key, running in list(self._turns.items()):
            if running.ended is not None and running.ended < before:
                del self._turns[key]

    async def _begun(self, ask: Ask, turn: str) -> tuple[Begun, list[Row]]:
        """The turn as it is in the store, when the thread is free for it."""
        waits_for: tuple[str, str] | None = None
        try:
            while True:
                try:
                    return await self._store.write(partial(self._begin, ask=ask, turn=turn), durable=False)
                except ThreadGoneError:
                    raise NoSuchThreadError("the thread is not there any more") from None
                except NothingToRedoError:
                    raise RequestError(
                        "retry", "retry: the thread has no turn that could be taken again"
                    ) from None
                except TakenError as found:
                    busy = found
                if not busy.turn:
                    continue  # it is free again already
                if await self._left.is_left(busy.turn, busy.process):
                    await self._left.give_up(ask.principal.tenant, busy.thread, busy.turn)
                    continue
                if ask.request.on_busy == "refuse":
                    raise BusyError(
                        "another turn of this thread is under way: wait for its end, stop it, or send"
                        ' `"onBusy": "wait"`'
                    )
                key = ask.principal.tenant, busy.thread
                if waits_for is None:
                    if self._waiting[key] >= MOST_WAITING:
                        raise BusyError(f"{MOST_WAITING} requests wait for this thread already")
                    waits_for = key
                    self._waiting[key] += 1
                await self._until_free(key, busy.turn)
        finally:
            if waits_for is not None:
                self._waiting[waits_for] -= 1
                self._waiting += Counter()  # without those that are zero

    async def _until_free(self, key: tuple[str, str], turn: str) -> None:
        running = self._turns.get(key)
        if running is not None and running.id == turn and not running.is_over:
            async for _ in running.events():
                pass
        else:  # another process has it, or it is about to begin here
            await asyncio.sleep(LOOK_AGAIN)

    def _begin(self, connection: Connection, ask: Ask, turn: str) -> tuple[Begun, list[Row]]:
        """In one transaction: the thread, where it is new, and the turn."""
        thread = ask.thread
        principal, request = ask.principal, ask.request
        if thread is None:
            thread = threads.create_thread(
                connection,
                tenant=principal.tenant,
                id=str(uuid.uuid4()),
                agent=ask.agent.name,
                agent_key=agent_key(ask.agent),
                owner=principal.subject,
                title=request.title,
                session=ask.session,
            )
        asked = _rows_of(request)
        try:
            begun = turns.begin_turn(
                connection,
                tenant=thread.tenant,
                thread=thread.id,
                turn=turn,
                process=self._processes.own,
                rows=asked,
                redo=request.redo,
            )
        except ThreadBusyError as busy:
            raise TakenError(thread.id, busy) from None
        check_room(connection, self._room, tenant=thread.tenant, owner=thread.owner)
        if request.redo:
            before = list_messages(
                connection, tenant=thread.tenant, thread=thread.id, after=begun.first - 2, limit=1
            )
            asked = [each.row for each in before]
        return begun, asked

    def _made(self, ask: Ask, begun: Begun, asked: list[Row], turn: str) -> tuple[RunningTurn, bytes]:
        """The turn, and the request's body for the worker."""
        thread, request = begun.thread, ask.request
        said = request.messages
        messages = messages_of((*begun.history, *asked)) if said is None else list(said)
        has_message = bool(messages) and messages[-1].get("role") == "user"
        # In `messages` of the caller's own, all have their place there.
        new = len(messages) - 1 if said is None else -1
        given = Given(thread, turn, new, has_message)
        body = {
            **request.fields,
            "model": ask.agent.name,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "metadata": {"conversation_id": thread.id},
        }
        rows = TurnRows(
            self._store,
            thread,
            turn,
            self._journals.of(turn),
            partial(self._changed, thread),
            is_new_thread=ask.thread is None,
        )
        return RunningTurn(given=given, rows=rows, unread=ask.request.ignored), dumped(body)

    async def _asked(self, ask: Ask, body: bytes) -> Response:
        """The worker's answer, at least its head."""
        # Whoever may run the agent may say how; a model with an agent's token may not say what another one is.
        with_key = ask.request.needs_key and ask.principal.role == "human"
        for anew in (False, True):
            upstream = await way_to(self._directory, ask.agent.name, with_key=with_key, anew=anew)
            headers = {**ask.headers, "X-Request-Id": ask.request_id, ACCEPT_HEADER: "retry"}
            response = await self._workers.post(upstream, body, headers, with_key=with_key)
            if not (with_key and response.status == 403 and not anew):  # else replaced meanwhile
                break
        return response

    async def _run(self, ask: Ask, running: RunningTurn, body: bytes, entry: Entry) -> None:
        principal = ask.principal
        leave = self._hold(principal)

        def revoked() -> None:
            running.stop("the token that it was asked with counts no more")

        self._in_flight.enter(principal, revoked)
        began = time.monotonic()
        try:
            await running.run(partial(self._asked, ask, body))
        finally:
            self._left.active.discard(running.id)
            self._in_flight.leave(principal, revoked)
            leave()
            running.ended = time.monotonic()
            seconds = running.ended - began
            self._observe(seconds, running.outcome)
            entry.outcome, entry.duration_ms = running.outcome, seconds * 1000
            with contextlib.suppress(AuditUnavailableError):
                self._audit.write(entry)


def _entry(ask: Ask, thread: Thread) -> Entry:
    """The turn in the audit."""
    return Entry(
        principal=ask.principal,
        action="chat",
        target=f"agent/{ask.agent.name} thread/{thread.id}",
        request_id=ask.request_id,
        trace_id=ask.trace_id,
    )


def agent_key(agent: AgentRecord) -> str:
    """What threads of an agent belong to: its uid, which a new one of the same name does not have; else its name."""
    return agent.uid or agent.name


def _rows_of(request: ChatRequest) -> list[Row]:
    if request.message is None:
        return []
    try:
        return [row_of(request.message)]
    except ValueError as error:
        raise RequestError("messages", f"messages: {error}") from None
