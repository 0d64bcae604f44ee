"""The verbs `gateway backup` and `gateway restore`: the store as one file, and back.

Knows SQLite, and of the tables the one that has the number of the schema. The gateway may run meanwhile, or not.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from pallasctl.failures import Failure
from pallasctl.options import supervisor_options
from pallasctl.verbs.gateway.database import store_file

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION = "SELECT version_num FROM pallas_version"
_WAIT = 30.0
"""Seconds that are waited for those who write."""

store_option = click.option(
    "--store",
    metavar="STORE",
    help="The store, as in agents.yaml: sqlite:PATH [default: the deployment's].",
)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@store_option
@supervisor_options
def backup(file: Path, *, force: bool, store: str | None) -> None:
    """Copy the gateway's store, as it is at one moment, into FILE; the gateway goes on.

    FILE has digests of tokens and is for its owner alone.
    """
    source = _file(store, "backup", file)
    if file.exists() and not force:
        raise Failure(f"{file} is there: name another file, or give --force")
    version = _check(source)
    _copy_to_file(source, file)
    click.echo(f"backed up {source} (schema {version}) to {file}, {file.stat().st_size} bytes")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@store_option
@supervisor_options
def restore(file: Path, *, store: str | None) -> None:
    """Put the content of FILE, which `gateway backup` has made, in the place of the gateway's store.

    What was there is kept beside it. All of FILE is taken over, or nothing. Restart the gateway then: tokens that
    were made since count no more, and those that were revoked since count again.
    """
    target = _file(store, "restore", file)
    if not file.exists():
        raise Failure(f"there is no file {file}")
    version = _check(file)
    kept = target.with_name(f"{target.name}.before-restore-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
    if target.exists() and target.stat().st_size:
        present = _keep(target, kept)
        if present is not None and int(version) > int(present):
            kept.unlink()
            raise Failure(
                f"{file} is of a newer Pallas: its schema is {version}, that of the store {present}; upgrade first"
            )
        click.echo(f"kept what was there as {kept}")
    _replace(file, target)
    click.echo(f"restored {file} (schema {version}) into {target}; now run `pallasctl gateway restart`")


def _file(named: str | None, verb: str, file: Path) -> Path:
    found = store_file(named)
    if isinstance(found, Path):
        return found
    commands = {
        "backup": f"pg_dump --format=custom --file={file} '{found}'",
        "restore": f"pg_restore --clean --if-exists --single-transaction --dbname='{found}' {file}",
    }
    raise Failure(
        "the store is a PostgreSQL: use its own programs, and for a restore stop the gateway first",
        details=[commands[verb]],
    )


def _check(path: Path) -> str:
    """The number of the schema of a store that is whole.

    Raises:
        Failure: it is none, or is damaged.
    """
    try:
        with closing(_open(path, "ro")) as database:
            found = database.execute("PRAGMA integrity_check(1)").fetchone()
            if found != ("ok",):
                raise Failure(f"{path} is damaged: {found[0]}")
            ((version,),) = database.execute(_VERSION).fetchall()
    except (sqlite3.Error, ValueError) as error:
        raise Failure(f"{path} is no store of a gateway, or is damaged: {error}") from None
    if not str(version).isdecimal():
        raise Failure(f"{path} is no store of a gateway: its schema has no number")
    return str(version)


def _copy_to_file(source: Path, file: Path, *, owner_of: Path | None = None) -> None:
    """The copy appears under its name when it is whole and on the disk.

    Args:
        owner_of: whose it is to be, where root asks: the gateway has to be able to open it.
    """
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)):
            pass
        if owner_of is not None and os.geteuid() == 0:
            owner = owner_of.stat()
            os.chown(new, owner.st_uid, owner.st_gid)
        with closing(_open(source, "ro")) as old, closing(_open(new, "rw")) as copy:
            old.backup(copy)
            # One file, whatever the journal of the original.
            copy.execute("PRAGMA journal_mode = DELETE")
        _check(new)
        _sync(new)
        new.replace(file)
        _sync(file.absolute().parent)
    except (OSError, sqlite3.Error) as error:
        _fail(f"{source} is not copied to {file}", error)
    finally:
        new.unlink(missing_ok=True)


def _keep(target: Path, kept: Path) -> str | None:
    """Keep what is there; the number of its schema, None if it is damaged: then its bytes are kept as they are."""
    try:
        version = _check(target)
    except Failure:
        try:
            kept.touch(0o600, exist_ok=False)
            kept.write_bytes(target.read_bytes())
            _sync(kept)
        except OSError as error:
            _fail(f"what is in {target} cannot be kept, and nothing was changed", error)
        return None
    _copy_to_file(target, kept, owner_of=target)
    return version


def _replace(file: Path, target: Path) -> None:
    try:
        if not _is_database(target):
            # Nobody can have it open to any purpose.
            for path in _with_journals(target):
                path.unlink(missing_ok=True)
            _copy_to_file(file, target, owner_of=target.parent)
            return
        # One transaction of SQLite: who has it open sees all of it or nothing, also after a crash.
        with closing(_open(file, "ro")) as source, closing(_open(target, "rw")) as database:
            source.backup(database)
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except (OSError, sqlite3.Error) as error:
        _fail(f"{target} is as it was", error)


def _is_database(path: Path) -> bool:
    try:
        with closing(_open(path, "rw")) as database:
            database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            found: tuple[str] = database.execute("PRAGMA quick_check(1)").fetchone()
            return found == ("ok",)
    except sqlite3.Error:
        return False


def _with_journals(path: Path) -> Iterator[Path]:
    return (path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-journal"))


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=_WAIT, isolation_level=None
    )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fail(message: str, error: Exception) -> NoReturn:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    raise Failure(f"{message}: {reason}") from None
