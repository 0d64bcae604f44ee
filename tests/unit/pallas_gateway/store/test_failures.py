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
        await store.close()

    asyncio.run(act())
