"""The schema: made by the migrations as the tables say, once, and refused where it is not ours."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from pallas_gateway.store import schema
from pallas_gateway.store.database import Store, open_store
from pallas_gateway.store.engines import make_engines, read_url
from pallas_gateway.store.errors import StoreUnavailableError, StoreUnusableError
from pallas_gateway.store.tables import HEAD, METADATA, NOT_IN_TABLES, VERSION_TABLE
from support.gateway.postgres import shared_postgres

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection


def close(store: Store) -> None:
    asyncio.run(store.close())


def execute(url: str, *statements: str) -> None:
    engines = make_engines(read_url(url))
    with engines.writer.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engines.dispose()


def test_the_migrations_make_what_the_tables_say(store: Store) -> None:
    def differences(connection: Connection) -> object:
        options = {
            "version_table": VERSION_TABLE,
            "compare_type": True,
            "compare_server_default": True,
            "include_name": lambda name, *_: not str(name).startswith(tuple(NOT_IN_TABLES)),
        }
        return compare_metadata(MigrationContext.configure(connection, opts=options), METADATA)

    def constraints(connection: Connection) -> None:
        connection.execute(text("INSERT INTO tokens (tenant, id, name, role) VALUES ('t', 'i', 'n', 'root')"))

    assert asyncio.run(store.read(differences)) == []
    with pytest.raises(Exception, match=r"ck_tokens_role|NOT NULL|not-null"):
        asyncio.run(store.write(constraints))


def test_the_newest_migration_is_the_one_that_the_code_knows(store: Store) -> None:
    def heads(connection: Connection) -> object:
        return ScriptDirectory.from_config(schema.configuration(connection)).get_heads()

    assert asyncio.run(store.read(heads)) == [HEAD]


def test_a_database_is_opened_again_without_a_change(url: str) -> None:
    close(open_store(url))
    engines = make_engines(read_url(url))
    assert not schema.prepare(engines.writer)
    engines.dispose()


def test_those_who_open_an_empty_database_at_a_time_take_turns(url: str) -> None:
    async def live() -> None:
        stores = await asyncio.gather(*(asyncio.to_thread(open_store, url) for _ in range(6)))
        for store in stores:
            await store.close()

    asyncio.run(live())


def test_a_newer_schema_is_refused(url: str) -> None:
    close(open_store(url))
    execute(url, f"UPDATE {VERSION_TABLE} SET version_num = '9000'")
    with pytest.raises(StoreUnusableError, match=r"newer Pallas.*9000.*pallasctl gateway restore"):
        open_store(url)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE tokens (secret TEXT)"],
        [f"CREATE TABLE {VERSION_TABLE} (version_num TEXT)"],
        [f"CREATE TABLE {VERSION_TABLE} (version_num TEXT)", f"INSERT INTO {VERSION_TABLE} VALUES ('f00d')"],
    ],
    ids=["tables", "empty", "another number"],
)
def test_the_database_of_another_program_is_refused_and_left_alone(url: str, statements: list[str]) -> None:
    execute(url, *statements)
    with pytest.raises(StoreUnusableError, match=r"another program|not of Pallas"):
        open_store(url)
    with pytest.raises(StoreUnusableError):
        open_store(url)


def test_a_migration_that_breaks_off_leaves_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade = schema._upgrade

    def broken(connection: Connection) -> None:
        upgrade(connection)
        raise RuntimeError("killed")

    monkeypatch.setattr(schema, "_upgrade", broken)
    with pytest.raises(RuntimeError, match="killed"):
        open_store(url)
    monkeypatch.undo()
    close(open_store(url))


def test_a_file_is_its_owners_alone_with_its_journals(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    path.touch(0o644)
    store = open_store(f"sqlite:{path}")
    asyncio.run(store.write(lambda connection: connection.execute(text("DELETE FROM tokens"))))
    found = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert found == {"gateway.db": 0o600, "gateway.db-wal": 0o600, "gateway.db-shm": 0o600}
    close(store)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA application_id").fetchone() == (schema.APPLICATION_ID,)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    "content", [b"no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 4000], ids=len
)
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "gateway.db"
    path.write_bytes(content)
    with pytest.raises(StoreUnusableError, match="store"):
        open_store(f"sqlite:{path}")
    assert path.read_bytes() == content


def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gateway.db")
    for place in (tmp_path, tmp_path / "missing" / "gateway.db", tmp_path / "link"):
        with pytest.raises((StoreUnusableError, StoreUnavailableError)):
            open_store(f"sqlite:{place}")


@pytest.mark.parametrize(
    "store",
    [
        *(
            "",
            "gateway.db",
            "sqlite:",
            "sqlite::memory:",
            "sqlite://host/x",
            "sqlite:x?mode=ro",
            "mysql://h/d",
        ),
        *(
            "sqlite:x?synchronous=off",
            "sqlite:file:x",
            "postgresql+asyncpg://u:hunter2@h/d",
            "postgresql://u:hunter2@h:x/d",
        ),
    ],
)
def test_what_is_no_address_is_refused_without_being_shown(store: str) -> None:
    with pytest.raises(StoreUnusableError) as caught:
        read_url(store)
    assert "hunter2" not in str(caught.value)


def test_a_postgres_that_is_not_there_is_not_available_now() -> None:
    url = shared_postgres().url("none").replace("pallas@", "pallas:hunter2@")
    with pytest.raises(StoreUnavailableError) as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)
    assert '"none"' in str(caught.value)
