"""`gateway backup` and `gateway restore`, with the store that the gateway has open."""

from __future__ import annotations

import asyncio
import os
import shlex
import sqlite3
import subprocess
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fakes.control_server import run, status
from pallas_gateway.identity.grants import EVERYTHING
from pallas_gateway.store import tokens
from pallas_gateway.store.database import Store, open_store
from pallas_gateway.store.tables import HEAD
from support.gateway.postgres import programs, shared_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

    from fakes.control_server import FakeControl

TENANT = "default"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "gateway.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    path.parent.mkdir()
    store = open_store(f"sqlite:{path}")
    yield store
    asyncio.run(store.close())


@pytest.fixture
def ctl(fake: FakeControl, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeControl:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PALLAS_GATEWAY_STORE", raising=False)
    document = status()
    document["supervisor"]["state_directory"] = str(path.parent)
    fake.answer("/v1/status", document)
    return fake


def create(store: Store, name: str) -> tokens.NewToken:
    make = partial(tokens.create, tenant=TENANT, name=name, role="human", grants=[EVERYTHING])
    return asyncio.run(store.write(make))


def names(store: Store) -> list[str]:
    return [token.name for token in asyncio.run(store.read(partial(tokens.listed, tenant=TENANT))).tokens]


def done(result: Result) -> Result:
    assert result.exit_code == 0, result.output
    return result


def test_what_is_backed_up_is_there_after_a_restore(
    ctl: FakeControl, store: Store, path: Path, tmp_path: Path
) -> None:
    made = create(store, "before")
    file = tmp_path / "backup.db"
    assert f"schema {HEAD}" in done(ctl.run("gateway", "backup", str(file))).stdout
    assert file.stat().st_mode & 0o777 == 0o600
    create(store, "after")
    asyncio.run(store.write(partial(tokens.revoke, tenant=TENANT, token=made.token.id)))
    assert names(store) == ["after"]
    said = done(ctl.run("gateway", "restore", str(file))).stdout
    assert "pallasctl gateway restart" in said
    # Who has it open sees it, too.
    assert names(store) == ["before"]
    found = asyncio.run(store.read(partial(tokens.by_digest, digest=made.token.digest)))
    assert found is not None
    assert found.counts(tokens.now())
    create(store, "later")
    (kept,) = path.parent.glob("gateway.db.before-restore-*")
    assert kept.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(kept)) as database:
        assert [row[0] for row in database.execute("SELECT name FROM tokens WHERE revoked IS NULL")] == [
            "after"
        ]


@pytest.mark.parametrize("damage", ["gone", "overwritten", "empty", "torn"])
def test_a_store_that_is_broken_is_restored(
    ctl: FakeControl, path: Path, tmp_path: Path, damage: str
) -> None:
    path.parent.mkdir()
    store = open_store(f"sqlite:{path}")
    create(store, "before")
    file = tmp_path / "backup.db"
    done(ctl.run("gateway", "backup", str(file)))
    asyncio.run(store.close())
    if damage == "gone":
        path.unlink()
    else:
        whole = path.read_bytes()
        path.write_bytes({"overwritten": b"x" * 5000, "empty": b"", "torn": whole[:5000]}[damage])
    done(ctl.run("gateway", "restore", str(file)))
    assert path.stat().st_mode & 0o777 == 0o600
    again = open_store(f"sqlite:{path}")
    assert names(again) == ["before"]
    asyncio.run(again.close())
    assert len(list(path.parent.glob("*before-restore*"))) == (damage in ("overwritten", "torn"))


def test_what_is_no_backup_is_refused_and_changes_nothing(
    ctl: FakeControl, store: Store, path: Path, tmp_path: Path
) -> None:
    create(store, "before")
    file = tmp_path / "file"
    done(ctl.run("gateway", "backup", str(file)))
    assert ctl.run("gateway", "backup", str(file)).exit_code == 1
    done(ctl.run("gateway", "backup", str(file), "--force"))
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE pallas_version SET version_num = '9999'")
    refused = ctl.run("gateway", "restore", str(file))
    assert "newer Pallas" in refused.stderr
    for content in (b"", b"x" * 5000, file.read_bytes()[:6000]):
        file.write_bytes(content)
        assert ctl.run("gateway", "restore", str(file)).exit_code == 1
    file.unlink()
    assert ctl.run("gateway", "restore", str(file)).exit_code == 1
    assert names(store) == ["before"]
    assert {each.name for each in path.parent.iterdir()} <= {"gateway.db", "gateway.db-wal", "gateway.db-shm"}


def test_a_store_elsewhere_is_named_or_found(
    ctl: FakeControl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALLAS_GATEWAY_STORE", "sqlite:other.db")
    (tmp_path / "state").mkdir()
    store = open_store(f"sqlite:{tmp_path / 'state' / 'other.db'}")
    create(store, "before")
    done(ctl.run("gateway", "backup", "one"))
    done(run("gateway", "backup", "two", "--store", f"sqlite:{tmp_path / 'state' / 'other.db'}"))
    done(run("gateway", "backup", "three", "--store", "state/other.db"))
    asyncio.run(store.close())
    assert ctl.run("gateway", "backup", "four", "--store", "sqlite:missing.db").exit_code == 1
    assert not Path("four").exists()


def test_of_postgresql_the_commands_are_said_without_the_password(
    ctl: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALLAS_GATEWAY_STORE", "postgresql://pallas:hunter2@db.example.com:5433/pallas")
    for verb, program in (("backup", "pg_dump"), ("restore", "pg_restore")):
        refused = ctl.run("gateway", verb, "file.dump")
        assert refused.exit_code == 1
        assert program in refused.stderr
        assert "postgresql://pallas@db.example.com:5433/pallas" in refused.stderr
        assert "hunter2" not in refused.output


def test_of_postgresql_the_commands_that_are_said_do_it(
    ctl: FakeControl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = shared_postgres().new_database()
    monkeypatch.setenv("PALLAS_GATEWAY_STORE", url)
    store = open_store(url)
    made = create(store, "before")
    file = tmp_path / "gateway.dump"

    def said_to(verb: str) -> None:
        command = ctl.run("gateway", verb, str(file)).stderr.splitlines()[-1]
        subprocess.run(
            shlex.split(command), env={**os.environ, "PATH": f"{programs()}:{os.environ['PATH']}"}, check=True
        )

    said_to("backup")
    create(store, "after")
    asyncio.run(store.write(partial(tokens.revoke, tenant=TENANT, token=made.token.id)))
    asyncio.run(store.close())
    said_to("restore")
    again = open_store(url)
    assert names(again) == ["before"]
    asyncio.run(again.close())
