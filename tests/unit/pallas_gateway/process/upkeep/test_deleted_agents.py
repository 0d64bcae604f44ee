"""Deletions of agents reach what belongs to them, also where the supervisor or the store does not answer at first."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from pallas_control.errors import UnreachableError
from pallas_gateway.access.audit import FILE, Audit
from pallas_gateway.directory.mirror import Gone
from pallas_gateway.identity.sources import AgentKey
from pallas_gateway.process.upkeep.deleted_agents import follow_deletions
from pallas_gateway.store.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.identity.principals import Principals
    from pallas_gateway.process.upkeep.agent_threads import AgentThreads

PATIENCE = 10.0


@dataclass
class Both:
    """As much of the directory and of the principals as is asked for."""

    failures: list[Exception] = field(default_factory=list)
    """Of the next calls."""
    done: asyncio.Queue[object] = field(default_factory=asyncio.Queue)
    tell: Callable[[Gone], None] = print
    revoked: Callable[[AgentKey, str], None] = print

    def observe_gone(self, observer: Callable[[Gone], None]) -> None:
        self.tell = observer

    def on_gone(self, observer: Callable[[AgentKey, str], None]) -> None:
        self.revoked = observer

    async def filled(self) -> None: ...

    async def declared(self) -> dict[str, str | None]:
        self._fail()
        return {"jarvis": "u1"}

    async def keep_agents(self, declared: Mapping[str, str | None]) -> None:
        self._fail()
        self.done.put_nowait(declared)

    async def agents_deleted(self, *agents: AgentKey) -> None:
        self._fail()
        for agent in agents:
            self.revoked(agent, "tok_1")
        self.done.put_nowait(agents)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


@dataclass
class Threads:
    """As much of the threads of agents as is asked for."""

    failures: list[Exception] = field(default_factory=list)
    done: asyncio.Queue[object] = field(default_factory=asyncio.Queue)
    deleted: Callable[[AgentKey, int], object] = print
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    """Unset, a deletion waits."""

    def on_gone(self, observer: Callable[[AgentKey, int], object]) -> None:
        self.deleted = observer

    async def keep_agents(self, declared: Mapping[str, str | None]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.done.put_nowait(declared)

    async def agents_deleted(self, *agents: AgentKey) -> None:
        await self.hold.wait()
        if self.failures:
            raise self.failures.pop(0)
        for agent in agents:
            self.deleted(agent, 7)
        self.done.put_nowait(agents)


@asynccontextmanager
async def following(both: Both, audit: Audit, threads: Threads | None = None) -> AsyncIterator[None]:
    doing = asyncio.create_task(
        follow_deletions(
            cast("Directory", both),
            cast("Principals", both),
            cast("AgentThreads", threads or Threads()),
            audit,
            again=0,
        )
    )
    try:
        async with asyncio.timeout(PATIENCE):
            yield
    finally:
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)
        audit.close()


def test_each_deletion_is_done_and_nothing_else_that_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        both = Both([UnreachableError("away"), StoreUnavailableError("away")])
        async with following(both, Audit(tmp_path)):
            assert await both.done.get() == {"jarvis": "u1"}
            both.failures = [StoreUnavailableError("away")] * 3
            both.tell(Gone("jarvis", "u1", deleted=False))
            both.tell(Gone("jarvis", "u1", deleted=True))
            assert await both.done.get() == (AgentKey("jarvis", "u1"),)
            both.tell(Gone("jarvis", None, deleted=True))
            assert await both.done.get() == {"jarvis": "u1"}, "the store knows which one it was"
            assert both.done.empty()
        [line] = map(json.loads, (tmp_path / FILE).read_text().splitlines())
        assert (line["principal"], line["name"]) == (None, "gateway")
        assert (line["action"], line["target"]) == ("token.revoke", "token/tok_1 agent/jarvis")

    asyncio.run(main())


def test_tokens_are_revoked_while_the_audit_cannot_be_written_and_are_in_it_afterwards(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        both, written = Both(), asyncio.Queue[bool]()
        (tmp_path / FILE).mkdir()
        async with following(both, Audit(tmp_path, written=written.put_nowait)):
            await both.done.get()
            for name in ("jarvis", "friday"):
                both.tell(Gone(name, "u1", deleted=True))
                assert await both.done.get() == (AgentKey(name, "u1"),)
            (tmp_path / FILE).rmdir()
            for _ in range(2):
                while not await written.get():
                    pass
        lines = (tmp_path / FILE).read_text().splitlines()
        assert [json.loads(line)["target"].partition(" ")[2] for line in lines] == [
            "agent/jarvis",
            "agent/friday",
        ]

    asyncio.run(main())


def test_threads_go_at_their_own_pace_and_are_one_line_of_the_audit(tmp_path: Path) -> None:
    async def main() -> None:
        both, threads = Both(), Threads([StoreUnavailableError("away")])
        async with following(both, Audit(tmp_path), threads):
            assert await threads.done.get() == await both.done.get() == {"jarvis": "u1"}
            threads.failures = [StoreUnavailableError("away")]
            both.tell(Gone("jarvis", "u1", deleted=False))
            both.tell(Gone("jarvis", "u1", deleted=True))
            assert await both.done.get() == (AgentKey("jarvis", "u1"),), "not behind the threads"
            assert threads.done.empty()
            threads.hold.set()
            assert await threads.done.get() == (AgentKey("jarvis", "u1"),)
            assert threads.done.empty()
        lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
        assert [(line["action"], line["target"]) for line in lines] == [
            ("token.revoke", "token/tok_1 agent/jarvis"),
            ("threads/delete", "agent/jarvis threads/7"),
        ]

    asyncio.run(main())
