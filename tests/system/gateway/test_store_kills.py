"""What is acknowledged survives: SIGKILL of the process that writes, and of PostgreSQL with all of its processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pallas_gateway.store import tokens
from pallas_gateway.store.database import Store, open_store
from pallas_gateway.store.errors import StoreUnavailableError
from support.gateway.postgres import shared_postgres

if TYPE_CHECKING:
    from pathlib import Path

TENANT = "default"
ACKNOWLEDGED = 40
"""Rows before the writer is killed."""

WRITER = """
    import asyncio, sys
    from functools import partial
    from pallas_gateway.store import tokens
    from pallas_gateway.store.database import open_store

    async def write(store, durable):
        while True:
            make = partial(tokens.create, tenant="default", name="x", role="human")
            new = await store.write(make, durable=durable)
            print(new.token.id, flush=True)

    async def main():
        store = open_store(sys.argv[1])
        await asyncio.gather(write(store, True), write(store, False), write(store, False))

    asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'gateway.db'}"
    return shared_postgres().new_database()


async def ids(store: Store) -> set[str]:
    listed = await store.read(partial(tokens.listed, tenant=TENANT))
    return {token.id for token in listed.tokens}


def create(name: str = "x") -> partial[tokens.NewToken]:
    return partial(tokens.create, tenant=TENANT, name=name, role="human")


def test_a_killed_writer_loses_nothing_that_was_acknowledged(url: str) -> None:
    acknowledged: set[str] = set()
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), url], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(ACKNOWLEDGED):
            line = writer.stdout.readline()
            assert line.endswith("\n"), "the writer has ended by itself"
            acknowledged.add(line.strip())
        writer.kill()
        # Lines in the pipe were acknowledged as well; the last one may be torn.
        acknowledged.update(line.strip() for line in writer.stdout if line.endswith("\n"))
        writer.wait()
        store = open_store(url)
        kept = asyncio.run(ids(store))
        asyncio.run(store.close())
        assert acknowledged <= kept
        # At most what each of the three was waiting for.
        assert len(kept - acknowledged) <= 9


def test_postgres_dies_and_comes_back() -> None:
    postgres = shared_postgres()
    store = open_store(postgres.new_database())

    async def live() -> None:
        acknowledged: set[str] = set()
        failures: list[StoreUnavailableError] = []
        begun = asyncio.Event()

        async def write() -> None:
            try:
                while True:
                    acknowledged.add((await store.write(create())).token.id)
                    if len(acknowledged) >= ACKNOWLEDGED:
                        begun.set()
            except StoreUnavailableError as error:
                failures.append(error)

        writers = [asyncio.create_task(write()) for _ in range(4)]
        await begun.wait()
        await asyncio.to_thread(postgres.kill)
        await asyncio.gather(*writers)
        assert len(failures) == len(writers)
        assert all("the store is not available" in str(error) for error in failures)
        with pytest.raises(StoreUnavailableError) as caught:
            await store.write(create())
        assert not caught.value.maybe_written
        with pytest.raises(StoreUnavailableError):
            await ids(store)

        await asyncio.to_thread(postgres.start)
        kept = await ids(store)
        assert acknowledged <= kept
        maybe = sum(error.maybe_written for error in failures)
        assert len(kept - acknowledged) <= maybe
        assert (await store.write(create())).token.id in await ids(store)

    try:
        asyncio.run(live())
    finally:
        asyncio.run(store.close())


def test_connections_that_postgres_has_lost_cost_no_read() -> None:
    postgres = shared_postgres()
    store = open_store(postgres.new_database())

    async def live() -> None:
        made = (await store.write(create())).token.id
        await asyncio.gather(*(ids(store) for _ in range(8)))
        await asyncio.to_thread(postgres.kill)
        await asyncio.to_thread(postgres.start)
        found = await asyncio.gather(*(ids(store) for _ in range(8)))
        assert found == [{made}] * 8
        # Nor a change: what a connection is found dead by comes before it.
        await asyncio.to_thread(postgres.kill)
        await asyncio.to_thread(postgres.start)
        assert (await store.write(create())).token.id

    try:
        asyncio.run(live())
    finally:
        asyncio.run(store.close())
