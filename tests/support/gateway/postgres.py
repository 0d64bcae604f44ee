"""A real PostgreSQL of the tests' own: started where a test needs one, killed and started again at will.

Knows initdb and postgres, which come with Debian's `postgresql`; nothing of who uses it. It refuses to run as root,
and so runs as the user that Debian makes for it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from support.ports import free_ports

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

OWNER = "pallas"
_ROOT = 0
_USERS = ("postgres", "nobody")
_LIBRARIES = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    """The folder with the newest PostgreSQL's programs, which Debian keeps out of PATH; None if there is none."""
    versions = [path for path in _LIBRARIES.glob("*/bin") if (path / "initdb").exists()]
    return max(versions, key=lambda path: float(path.parent.name), default=None)


class Postgres:
    """One cluster, which listens on a port of 127.0.0.1 and lets everybody in."""

    def __init__(self, bin_: Path) -> None:
        self._bin = bin_
        # Short: the path of a socket is in it.
        self._folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self._user = next(user for user in _USERS if _exists(user)) if os.geteuid() == _ROOT else None
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._data = self._folder / "data"
        (self.port,) = free_ports(1)
        self._numbers = itertools.count(1)
        self._run(
            "initdb", "-D", self._data, "-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )

    def start(self) -> None:
        """Start it; it takes connections when this returns."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self._folder,
            "fsync": "off",
            "shared_buffers": "16MB",
            "max_connections": 60,
            "timezone": "America/New_York",
        }
        settings = " ".join(f"-c {name}={value}" for name, value in options.items())
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", self._folder / "log", "-o", settings)

    def kill(self) -> None:
        """SIGKILL to all of its processes; returns when they are gone."""
        postmaster = psutil.Process(int((self._data / "postmaster.pid").read_text().split()[0]))
        # It would start again what dies, and what it starts after the look would be left over.
        postmaster.suspend()
        processes = [*postmaster.children(recursive=True), postmaster]
        for process in processes:
            # One for a connection, or for vacuuming, ends by itself as well.
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        gone, alive = psutil.wait_procs(processes, timeout=60)
        assert not alive, gone

    def kill_backend(self, application: str, chance: random.Random) -> None:
        """SIGKILL to the process behind one connection of that application.

        The postmaster ends all others then, and takes connections again once it has gone through its log.
        """
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            found = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name = %s ORDER BY pid", (application,)
            ).fetchall()
        assert found, f"{application} has no connection"
        psutil.Process(chance.choice(found)[0]).kill()

    def stop(self) -> None:
        """Stop it in an orderly way, without waiting for clients, and delete what it has."""
        subprocess.run(
            self._command("pg_ctl", "stop", "-m", "immediate", "-D", self._data),
            check=False,
            capture_output=True,
            user=self._user,
            cwd="/",
        )
        shutil.rmtree(self._folder, ignore_errors=True)

    def new_database(self) -> str:
        """The URL of a database that is empty."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def url(self, database: str) -> str:
        """The URL of a database of it."""
        return f"postgresql://{OWNER}@127.0.0.1:{self.port}/{database}"

    def _command(self, program: str, *arguments: object) -> Sequence[str]:
        return [str(self._bin / program), *map(str, arguments)]

    def _run(self, program: str, *arguments: object) -> None:
        # To a file, not a pipe: what it starts in the background keeps it open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                self._command(program, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                check=False,
                user=self._user,
                cwd="/",
                timeout=120,
            )
            said.seek(0)
            assert done.returncode == 0, said.read().decode()


@functools.cache
def shared_postgres() -> Postgres:
    """The one of this process of pytest, running; it ends with the process."""
    postgres = new_postgres()
    postgres.start()
    return postgres


def new_postgres() -> Postgres:
    """One that has not been started; it ends with this process of pytest."""
    found = programs()
    if found is None:
        message = "not run: needs PostgreSQL (apt-get install postgresql)"
        if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
            pytest.fail(message)
        pytest.skip(message)
    postgres = Postgres(found)
    atexit.register(postgres.stop)
    return postgres


def postgres_for(database: str) -> Postgres | None:
    """One of its own, running, where the kind of store is `postgresql`; None for SQLite, which needs none."""
    if database != "postgresql":
        return None
    postgres = new_postgres()
    postgres.start()
    return postgres


def _exists(user: str) -> bool:
    return subprocess.run(["id", user], capture_output=True, check=False).returncode == 0
