"""Each question that the database does not answer is counted; one that is wrong by itself is not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.exc import IntegrityError

from pallas_gateway.store.database import open_store
from pallas_gateway.store.errors import StoreUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection


def test_a_full_disk_is_told_and_a_broken_rule_is_not(tmp_path: Path) -> None:
    failures: list[None] = []

    def fill(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # as many as there are
        connection.exec_driver_sql("CREATE TABLE large AS SELECT randomblob(1000000)")

    def break_a_rule(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE one (name TEXT UNIQUE)")
        connection.exec_driver_sql("INSERT INTO one VALUES ('a'), ('a')")

    async def act() -> None:
        store = await asyncio.to_thread(open_store, f"sqlite:{tmp_path}/gateway.db")
        store.on_failure = lambda: failures.append(None)
        with pytest.raises(IntegrityError):
            await store.write(break_a_rule)
        assert not failures
        with pytest.raises(StoreUnavailableError):
            await store.write(fill)
        assert len(failures) == 1
        assert store.cannot_write
        assert "the disk is full" in str(store.problem)
        await store.read(lambda connection: connection.exec_driver_sql("SELECT 1"))
        assert store.cannot_write, "what can be read says nothing of what can be written"
        await store.write(lambda connection: connection.exec_driver_sql("SELECT 1"))
        assert store.problem is None
        await store.close()

    asyncio.run(act())


def test_a_file_that_is_gone_or_another_is_a_problem(tmp_path: Path) -> None:
    file, moved = tmp_path / "gateway.db", tmp_path / "moved.db"

    async def act() -> None:
        store = await asyncio.to_thread(open_store, f"sqlite:{file}")
        assert store.problem is None
        file.rename(moved)
        assert "is not there any more" in str(store.problem)
        file.touch()
        assert "another file than the one in use: run `pallasctl gateway restart`" in str(store.problem)
        moved.replace(file)
        assert store.problem is None
        await store.close()

    asyncio.run(act())
