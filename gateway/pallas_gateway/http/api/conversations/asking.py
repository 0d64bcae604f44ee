"""Asking an agent, as the principal of a request may: which agent, in which thread, and the turn that begins."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pallas_gateway.access.audit import Entry
from pallas_gateway.conversations.errors import BusyError, NoSuchThreadError, RequestError
from pallas_gateway.conversations.turns import Ask, agent_key
from pallas_gateway.http.api.agent_documents import invalid
from pallas_gateway.http.api.conversations.access import is_own, unavailable
from pallas_gateway.http.errors import ApiError
from pallas_gateway.mcp.surface import InsufficientScopeError
from pallas_gateway.store.errors import StoreError
from pallas_gateway.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pallas_gateway.access.audit import Audit
    from pallas_gateway.conversations.request import ChatRequest
    from pallas_gateway.conversations.turn import RunningTurn
    from pallas_gateway.conversations.turns import Turns
    from pallas_gateway.directory.records import AgentRecord
    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.identity.principal import Principal
    from pallas_gateway.mcp.admitted import Admitted
    from pallas_gateway.store.conversations.records import Thread


class Asking:
    """What a turn takes before it begins."""

    def __init__(self, conversations: Conversations, turns: Turns, audit: Audit) -> None:
        self._conversations = conversations
        self._turns = turns
        self._audit = audit

    def agent(self, admitted: Admitted, said: str) -> AgentRecord:
        """The agent; who may not ask it is in the audit as well."""
        try:
            return self._conversations.agent(admitted.principal, said)
        except InsufficientScopeError as error:
            self._audit.write(
                Entry(
                    principal=admitted.principal,
                    action="chat",
                    target=f"agent/{error.permission.name}",
                    outcome="denied",
                    request_id=admitted.request_id,
                    trace_id=tracing.trace_id(admitted.headers),
                )
            )
            raise

    async def begin(self, admitted: Admitted, record: AgentRecord, asked: ChatRequest) -> RunningTurn:
        """Begin the turn that is asked for, in its thread.

        Raises:
            ApiError: the thread is none that the principal goes on with.
            RequestError, BusyError, NoSuchThreadError, StoreError: see `as_answers`.
        """
        principal = admitted.principal
        thread = None
        if asked.thread is not None:
            thread = await self._own_thread(principal, record, asked.thread)
        ask = Ask(
            principal=principal,
            agent=record,
            request=asked,
            thread=thread,
            request_id=admitted.request_id,
            trace_id=tracing.trace_id(admitted.headers),
        )
        return await self._turns.start(ask)

    async def _own_thread(self, principal: Principal, record: AgentRecord, said: str) -> Thread:
        thread, _ = await self._conversations.thread(principal, said, "view")
        if not is_own(principal, thread):
            raise ApiError(403, "forbidden", "only the owner of a thread goes on with it", field="threadId")
        if thread.agent_key != agent_key(record):
            raise invalid("threadId", f"is a thread with another agent, {thread.agent}")
        return thread


@contextmanager
def as_answers() -> Iterator[None]:
    """What the engine raises, as answers of the API."""
    try:
        yield
    except RequestError as error:
        raise ApiError(400, "invalid", str(error), field=error.field) from None
    except BusyError as error:
        raise ApiError(409, "thread_busy", str(error), headers={"retry-after": "1"}) from None
    except NoSuchThreadError as error:
        raise ApiError(404, "not_found", str(error)) from None
    except StoreError as error:
        raise unavailable(error) from error
