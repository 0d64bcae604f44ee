"""Deletions of agents reach their tokens, also where the supervisor or the store does not answer at first."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from pallas_control.errors import UnreachableError
from pallas_gateway.directory.mirror import Gone
from pallas_gateway.identity.sources import AgentKey
from pallas_gateway.process.deleted_agents import revoke_deleted
from pallas_gateway.store.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.identity.principals import Principals

PATIENCE = 10.0


@dataclass
class Both:
    """As much of the directory and of the principals as is asked for."""

    failures: list[Exception] = field(default_factory=list)
    """Of the next calls."""
    done: asyncio.Queue[object] = field(default_factory=asyncio.Queue)
    tell: Callable[[Gone], None] = print

    def observe_gone(self, observer: Callable[[Gone], None]) -> None:
        self.tell = observer

    async def filled(self) -> None: ...

    async def declared(self) -> dict[str, str | None]:
        self._fail()
        return {"jarvis": "u1"}

    async def keep_agents(self, declared: Mapping[str, str | None]) -> None:
        self._fail()
        self.done.put_nowait(declared)

    async def agents_deleted(self, *agents: AgentKey) -> None:
        self._fail()
        self.done.put_nowait(agents)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def test_each_deletion_is_done_and_nothing_else_that_is_gone() -> None:
    async def main() -> None:
        both = Both([UnreachableError("away"), StoreUnavailableError("away")])
        doing = asyncio.create_task(
            revoke_deleted(cast("Directory", both), cast("Principals", both), again=0)
        )
        try:
            async with asyncio.timeout(PATIENCE):
                assert await both.done.get() == {"jarvis": "u1"}
                both.failures = [StoreUnavailableError("away")] * 3
                both.tell(Gone("jarvis", "u1", deleted=False))
                both.tell(Gone("jarvis", "u1", deleted=True))
                assert await both.done.get() == (AgentKey("jarvis", "u1"),)
                both.tell(Gone("jarvis", None, deleted=True))
                assert await both.done.get() == {"jarvis": "u1"}, "the store knows which one it was"
                assert both.done.empty()
        finally:
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)

    asyncio.run(main())
