"""Changes of a thread as a request's principal may make them, each a line in the audit: renamed, deleted, stopped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pallas_common.problems import quoted
from pallas_gateway.http.errors import ApiError
from pallas_gateway.store.conversations import threads

if TYPE_CHECKING:
    from pallas_gateway.access.audit import Audit
    from pallas_gateway.conversations.turns import Turns
    from pallas_gateway.http.api.conversations.access import Conversations
    from pallas_gateway.mcp.admitted import Admitted
    from pallas_gateway.store.conversations.records import Thread


class ThreadChanges:
    """What may be done with a thread. Each raises what `Conversations.thread` raises, and what the audit does."""

    def __init__(self, conversations: Conversations, turns: Turns, audit: Audit) -> None:
        self._conversations = conversations
        self._turns = turns
        self._audit = audit

    async def rename(self, admitted: Admitted, said: str, title: str) -> Thread:
        """Give it another title; the thread with it."""
        with self._audit.doing(
            admitted.principal, "threads/rename", _target(said), request_id=admitted.request_id
        ):
            thread, _ = await self._conversations.thread(admitted.principal, said, "edit")
            await self._conversations.write(
                partial(threads.rename_thread, tenant=thread.tenant, id=thread.id, title=title)
            )
            self._conversations.changed(thread)
            found = await self._conversations.read(
                partial(threads.find_thread, tenant=thread.tenant, id=thread.id)
            )
        if found is None:
            raise ApiError(404, "not_found", "the thread is not there any more")
        return found

    async def delete(self, admitted: Admitted, said: str) -> Thread:
        """Delete it with its messages; a turn that is under way is stopped."""
        with self._audit.doing(
            admitted.principal, "threads/delete", _target(said), request_id=admitted.request_id, frees=True
        ):
            thread, _ = await self._conversations.thread(admitted.principal, said, "delete")
            await self._conversations.write(
                partial(threads.delete_thread, tenant=thread.tenant, id=thread.id), frees=True
            )
            self._conversations.changed(thread)
            await self._turns.stop(thread.tenant, thread.id, "the thread was deleted")
        return thread

    async def stop(self, admitted: Admitted, said: str) -> bool:
        """End its turn that is under way, what it has said so far is kept as failed; whether there was one."""
        thread, record = await self._conversations.thread(admitted.principal, said, "edit")
        target = f"agent/{record.name} thread/{thread.id}"
        with self._audit.doing(admitted.principal, "chat/stop", target, request_id=admitted.request_id):
            return await self._turns.stop(thread.tenant, thread.id, "stopped")


def _target(said: str) -> str:
    """A thread in the audit, whatever a client says that it is called."""
    return (
        f"thread/{said}" if said.isascii() and said.replace("-", "").isalnum() else f"thread/{quoted(said)}"
    )
