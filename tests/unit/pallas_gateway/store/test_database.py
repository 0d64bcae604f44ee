"""Transactions: whole or not at all, in threads, and what is said when the database fails."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from pallas_gateway.store import tokens
from pallas_gateway.store.database import Store, open_store
from pallas_gateway.store.errors import StoreUnavailableError
from support.faults.small_disk import small_disk

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from support.faults.small_disk import SmallDisk


def create(connection: Connection, name: str = "x") -> tokens.NewToken:
    return tokens.create(connection, tenant="default", name=name, role="human")


async def names(store: Store) -> list[str]:
    return [token.name for token in (await store.read(partial(tokens.listed, tenant="default"))).tokens]


def test_a_change_that_raises_changes_nothing(store: Store) -> None:
    def broken(connection: Connection) -> None:
        create(connection)
        raise ZeroDivisionError

    async def live() -> None:
        with pytest.raises(ZeroDivisionError):
            await store.write(broken)
        assert await names(store) == []

    asyncio.run(live())


def test_a_wrong_statement_is_not_called_an_outage_and_shows_no_values(store: Store) -> None:
    def wrong(connection: Connection) -> None:
        connection.execute(text("SELECT :secret FROM nowhere"), {"secret": "hunter2"})

    async def live() -> None:
        for ask in (store.read, store.write):
            with pytest.raises(DBAPIError) as caught:
                await ask(wrong)
            assert "hunter2" not in str(caught.value)

    asyncio.run(live())


def test_many_write_and_read_at_a_time(store: Store) -> None:
    async def live() -> None:
        writing = (store.write(partial(create, name=f"{number:03}")) for number in range(40))
        reading = (names(store) for _ in range(40))
        await asyncio.gather(*writing, *reading)
        assert sorted(await names(store)) == [f"{number:03}" for number in range(40)]

    asyncio.run(live())


def test_two_processes_write_to_one_database(url: str) -> None:
    async def live() -> None:
        one, two = open_store(url), open_store(url)
        await asyncio.gather(*(store.write(create) for store in (one, two) * 15))
        assert len(await names(one)) == len(await names(two)) == 30
        await one.close()
        await two.close()

    asyncio.run(live())


def test_who_reads_a_file_cannot_change_it(tmp_path: Path) -> None:
    async def live() -> None:
        store = open_store(f"sqlite:{tmp_path / 'gateway.db'}")
        with pytest.raises(StoreUnavailableError):
            await store.read(create)
        assert await names(store) == []
        await store.close()

    asyncio.run(live())


@pytest.mark.parametrize(
    ("said", "durable", "level"), [("", True, 2), ("", False, 1), ("?synchronous=full", False, 2)]
)
def test_what_has_to_last_is_on_the_disk(tmp_path: Path, said: str, durable: bool, level: int) -> None:
    def synchronous(connection: Connection) -> object:
        return connection.execute(text("PRAGMA synchronous")).scalar_one()

    async def live() -> None:
        store = open_store(f"sqlite:{tmp_path / 'gateway.db'}{said}")
        assert await store.write(synchronous, durable=durable) == level
        await store.close()

    asyncio.run(live())


def test_on_a_full_disk_what_takes_something_away_is_done_all_the_same(tmp_path: Path) -> None:
    async def live(mounted: SmallDisk) -> None:
        store = open_store(f"sqlite:{mounted.path / 'gateway.db'}")
        await store.write(partial(create, name="before"))
        await store.write(partial(create, name="stays"))
        listed = (await store.read(partial(tokens.listed, tenant="default"))).tokens
        (token,) = (each for each in listed if each.name == "before")
        await store.keep_reserve()
        reserve = mounted.path / "gateway.db.reserve"
        assert reserve.stat().st_size == 4 * 1024**2
        with mounted.full():
            with suppress(StoreUnavailableError):
                while True:  # until what SQLite has of its own is used up
                    await store.write(partial(create, name="x" * 400))
            with pytest.raises(StoreUnavailableError, match="make room"):
                await store.write(partial(create, name="x" * 400))
            assert reserve.exists()
            await store.write(partial(tokens.revoke, tenant="default", token=token.id), frees=True)
            assert not reserve.exists()
            found = await names(store)
            assert "before" not in found
            assert "stays" in found
        await store.keep_reserve()
        assert reserve.exists()
        await store.write(partial(create, name="after"))
        await store.close()

    try:
        disk = small_disk(tmp_path / "disk", 8)
        with disk as mounted:
            asyncio.run(live(mounted))
    except RuntimeError as error:
        pytest.skip(f"not run: {error}")


def test_a_full_disk_is_said_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    def much(connection: Connection) -> None:
        for number in range(3000):
            create(connection, f"{number} {'x' * 400}")

    async def live(folder: Path) -> None:
        store = open_store(f"sqlite:{folder / 'gateway.db'}")
        await store.write(partial(create, name="before"))
        with pytest.raises(StoreUnavailableError, match=r"disk is full.*make room") as caught:
            await store.write(much)
        assert not caught.value.maybe_written
        assert await names(store) == ["before"]
        await store.write(partial(create, name="after"))
        assert await names(store) == ["before", "after"]
        await store.close()

    try:
        disk = small_disk(tmp_path / "disk", 1)
        with disk as mounted:
            asyncio.run(live(mounted.path))
    except RuntimeError as error:
        pytest.skip(f"not run: {error}")
