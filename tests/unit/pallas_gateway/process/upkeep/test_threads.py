"""Threads that go by themselves: with their agents, and when they are old; on a real store, beside real turns."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from pallas_gateway.access.audit import FILE, Audit
from pallas_gateway.conversations.errors import TurnFailedError
from pallas_gateway.identity.sources import AgentKey
from pallas_gateway.process.upkeep.agent_threads import AgentThreads
from pallas_gateway.process.upkeep.old_threads import forget_old_threads
from pallas_gateway.store.errors import StoreUnavailableError
from pallas_gateway.store.tables import THREADS
from support.gateway.turns import rows
from support.gateway.turns.bench import TurnBench, turn_bench

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sqlalchemy import Connection

    from pallas_gateway.store.conversations.retention import Deleted

pytestmark = pytest.mark.anyio
DAY = 86400.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions of two threads."""
    for module in ("agent_threads", "old_threads"):
        monkeypatch.setattr(f"pallas_gateway.process.upkeep.{module}.PORTION", 2)


@dataclass
class Told:
    """What those who watch are told."""

    changed: list[str] = field(default_factory=list)
    counts: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    agents: list[tuple[AgentKey, int]] = field(default_factory=list)

    def change(self, thread: Deleted) -> None:
        self.changed.append(f"{thread.owner}'s {thread.id}")


async def left(on: TurnBench) -> set[str]:
    def read(connection: Connection) -> set[str]:
        return set(connection.execute(THREADS.select()).scalars("id"))

    return await on.store.read(read)


def of_agents(on: TurnBench, told: Told) -> AgentThreads:
    found = AgentThreads(on.store, on.turns, told.change, told.counts.put_nowait)
    found.on_gone(lambda agent, number: told.agents.append((agent, number)))
    return found


async def test_all_threads_of_a_deleted_agent_go_and_no_others(tmp_path: Path) -> None:
    def fill(connection: Connection) -> None:
        for number in range(5):
            rows.make_thread(connection, f"a{number}", owner=f"o{number}", key="u1")
            rows.talk(connection, f"a{number}", f"t{number}", "one", "two")
        rows.make_thread(connection, "new", key="u2")
        rows.make_thread(connection, "file's")

    async with turn_bench(tmp_path) as on:
        await on.store.write(fill)
        told = Told()
        await of_agents(on, told).agents_deleted(AgentKey("jarvis", "u1"))
        assert await left(on) == {"new", "file's"}
        assert sorted(told.changed) == [f"o{number}'s a{number}" for number in range(5)]
        assert told.agents == [(AgentKey("jarvis", "u1"), 5)]
        assert told.counts.get_nowait() == 5


async def test_what_was_deleted_while_nobody_looked_is_made_up_for(tmp_path: Path) -> None:
    def fill(connection: Connection) -> None:
        for agent, key in (
            ("deleted", "u1"),
            ("renewed", "u2"),
            ("broken", "u3"),
            ("there", "u4"),
            ("file's", None),
            ("gone from the file", None),
        ):
            rows.make_thread(connection, agent, agent=agent, key=key)

    async with turn_bench(tmp_path) as on:
        await on.store.write(fill)
        told = Told()
        declared = {"renewed": "u9", "broken": None, "there": "u4", "file's": None}
        await of_agents(on, told).keep_agents(declared)
        assert await left(on) == {"broken", "there", "file's", "gone from the file"}
        assert {agent.name for agent, _ in told.agents} == {"deleted", "renewed"}


async def test_a_turn_of_a_deleted_agent_is_stopped(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        running = await on.ask("one")
        exchange = await on.worker.next()
        await of_agents(on, Told()).agents_deleted(AgentKey("jarvis", None))
        await exchange.gone()
        with pytest.raises(TurnFailedError, match="the agent was deleted"):
            await running.result()
        assert await left(on) == set()


async def test_what_was_deleted_before_the_store_failed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(connection: Connection) -> None:
        for number in range(5):
            rows.make_thread(connection, str(number), key="u1")

    async with turn_bench(tmp_path) as on:
        await on.store.write(fill)
        told, write, calls = Told(), on.store.write, iter([True, False])

        async def once(what: object, **options: object) -> object:
            if not next(calls):
                raise StoreUnavailableError("away")
            return await write(what, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(on.store, "write", once)
        with pytest.raises(StoreUnavailableError):
            await of_agents(on, told).agents_deleted(AgentKey("jarvis", "u1"))
        assert told.agents == [(AgentKey("jarvis", "u1"), 2)]
        assert len(told.changed) == 2


@asynccontextmanager
async def forgetting(on: TurnBench, audit: Audit, told: Told, keep: float | None) -> AsyncIterator[None]:
    task = asyncio.create_task(
        forget_old_threads(
            on.store, audit, keep, changed=told.change, count=told.counts.put_nowait, interval=0.01
        )
    )
    try:
        async with asyncio.timeout(10):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        audit.close()


def age(connection: Connection, *threads: str, days: float) -> None:
    moment = dt.datetime.now(dt.UTC) - dt.timedelta(days=days)
    connection.execute(update(THREADS).where(THREADS.c.id.in_(threads)).values(active=moment))


async def test_old_threads_are_forgotten_and_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def fill(connection: Connection) -> None:
        for name in ("old 1", "old 2", "old 3", "busy", "young"):
            rows.make_thread(connection, name)
            rows.talk(connection, name, f"turn of {name}", "one", "two")
        rows.begin(connection, "busy", "turn", rows.user("three"))
        age(connection, "old 1", "old 2", "old 3", "busy", days=31)
        age(connection, "young", days=29)

    async with turn_bench(tmp_path) as on:
        await on.store.write(fill)
        told = Told()
        async with forgetting(on, Audit(tmp_path), told, 30 * DAY):
            assert await told.counts.get() == 3
            assert await left(on) == {"busy", "young"}
            await on.store.write(lambda connection: rows.finish(connection, "busy", "turn", rows.answer("4")))
            await on.store.write(lambda connection: age(connection, "young", days=31))
            assert await told.counts.get() == 1
            assert await left(on) == {"busy"}, "a turn has ended just now"
        assert sorted(told.changed) == ["ada's old 1", "ada's old 2", "ada's old 3", "ada's young"]
        lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
        assert [(line["action"], line["target"].split()[0], line["outcome"]) for line in lines] == [
            ("threads/forget", "threads/3", "ok"),
            ("threads/forget", "threads/1", "ok"),
        ]
        assert "3 threads without activity since" in caplog.text


async def test_what_cannot_be_written_down_is_not_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).mkdir()
    async with turn_bench(tmp_path) as on:
        await on.store.write(lambda connection: rows.make_thread(connection, "old"))
        await on.store.write(lambda connection: age(connection, "old", days=31))
        told = Told()
        async with forgetting(on, Audit(tmp_path), told, 30 * DAY):
            while "are not forgotten yet" not in caplog.text:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.01)
            assert await left(on) == {"old"}
            (tmp_path / FILE).rmdir()
            assert await told.counts.get() == 1
        assert caplog.text.count("are not forgotten yet") == 1


async def test_without_a_time_nothing_is_forgotten(tmp_path: Path) -> None:
    async with turn_bench(tmp_path) as on:
        await on.store.write(lambda connection: rows.make_thread(connection, "old"))
        await on.store.write(lambda connection: age(connection, "old", days=10_000))
        await asyncio.wait_for(forget_old_threads(on.store, Audit(tmp_path), None), 10)
        assert await left(on) == {"old"}
