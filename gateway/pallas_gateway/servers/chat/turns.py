"""A turn of a thread as a call of a tool: it ends with the call, and its caller hears the text as it comes."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from pallas_common.protocol.mcp.chain import chain_in_meta, header_of
from pallas_gateway.conversations.events import Text, ToolCall, ToolResult
from pallas_gateway.conversations.request import read_request
from pallas_gateway.conversations.turns import Ask, agent_key
from pallas_gateway.mcp.errors import INTERNAL_ERROR
from pallas_gateway.mcp.surface import McpError
from pallas_gateway.servers.chat.states import read_runs, read_state
from pallas_gateway.store.conversations.threads import find_session, find_thread
from pallas_gateway.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from pallas_gateway.conversations.events import TurnEvent
    from pallas_gateway.conversations.turn import Result, RunningTurn
    from pallas_gateway.conversations.turns import Turns
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.surface import ClientRequest
    from pallas_gateway.store.conversations.records import Thread
    from pallas_gateway.store.database import Store

type Json = dict[str, Any]

PROGRESS_INTERVAL = 0.2
"""Seconds between two notifications of progress."""
LONGEST_PROGRESS = 2000
"""Characters of one: of more, the newest."""


class ThreadTurns:
    """Turns of threads, for callers of MCP.

    Args:
        trace_id: of the request with these headers, for the audit.
    """

    def __init__(
        self,
        store: Store,
        turns: Turns,
        trace_id: Callable[[Mapping[str, str]], str | None] = lambda _: None,
    ) -> None:
        self._store = store
        self._turns = turns
        self._trace_id = trace_id

    async def own(self, principal: Principal, agent: AgentRecord, thread: str) -> Thread | None:
        """The principal's own thread of that id with the agent; None where there is none.

        Raises:
            StoreError: the store does not say.
        """
        found = await self._store.read(partial(find_thread, tenant=principal.tenant, id=thread))
        if found is None or found.owner != principal.subject or found.agent_key != agent_key(agent):
            return None
        return found

    async def of_session(self, principal: Principal, agent: AgentRecord, session: str) -> Thread | None:
        """The thread that the principal calls so, with the agent; None before its first turn.

        Raises:
            StoreError: the store does not say.
        """
        return await self._store.read(
            partial(
                find_session,
                tenant=principal.tenant,
                owner=principal.subject,
                agent_key=agent_key(agent),
                session=session,
            )
        )

    async def state(self, principal: Principal, agent: AgentRecord | None = None) -> Json:
        """The principal's own threads, and what was said last in the newest of them.

        Args:
            agent: with which alone; None for all.

        Raises:
            McpError: the store does not say.
        """
        keys = None if agent is None else [agent_key(agent)]
        return await self._read(
            partial(read_state, tenant=principal.tenant, owner=principal.subject, agent_keys=keys)
        )

    async def runs(self, principal: Principal, agent: AgentRecord) -> list[Json]:
        """The principal's own turns with an agent, those under way and the last ones.

        Raises:
            McpError: the store does not say.
        """
        key = agent_key(agent)
        return await self._read(
            partial(read_runs, tenant=principal.tenant, owner=principal.subject, agent_key=key)
        )

    async def run(
        self,
        request: ClientRequest,
        agent: AgentRecord,
        body: Mapping[str, object],
        thread: Thread | None,
        *,
        session: str | None = None,
    ) -> tuple[RunningTurn, Result]:
        """A turn, to its end; who does not wait for it any more ends it.

        Args:
            body: of the REST API's request.
            thread: whose turn it is; None for a new one.
            session: what the caller calls a new one.

        Raises:
            RequestError, BusyError, NoSuchThreadError, TurnFailedError, StoreError: as `Turns.start`, and its result.
        """
        running = await self._turns.start(
            Ask(
                principal=request.principal,
                agent=agent,
                request=read_request(body),
                thread=thread,
                session=session,
                request_id=request.request_id,
                trace_id=self._trace_id(request.headers),
                headers=header_of(chain_in_meta(request.params.get("_meta"))),
            )
        )
        request.passes_place()
        try:
            await _tell(running, request)
            return running, await running.result()
        finally:
            running.stop("the call was taken back")  # nothing where it is over

    async def _read[T](self, what: Callable[[Connection], T]) -> T:
        try:
            return await self._store.read(what)
        except StoreError as error:
            raise McpError(INTERNAL_ERROR, str(error), {"type": "unavailable"}, status=503) from None


async def _tell(running: RunningTurn, request: ClientRequest) -> None:
    """Tell the caller what happens, if it wants to know, until the turn is over."""
    meta = request.params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if not isinstance(token, str | int) or isinstance(token, bool):
        return
    count, untold, told_at = 0, "", float("-inf")
    async for happened in running.batches(silence=PROGRESS_INTERVAL):
        untold = (untold + "".join(_said(event) for _, event in happened))[-LONGEST_PROGRESS:]
        now = time.monotonic()
        if not untold or now - told_at < PROGRESS_INTERVAL:
            continue
        count += 1
        params = {"progressToken": token, "progress": count, "message": untold}
        untold, told_at = "", now
        await request.notify({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


def _said(event: TurnEvent) -> str:
    match event:
        case Text(delta):
            return delta
        case ToolCall():
            return f"\n[{event.tool}: started]\n"
        case ToolResult():
            return f"\n[{event.tool}: {'completed' if event.ok else 'failed'}]\n"
    return ""
