"""What all tests of the store need: each kind of database, empty and open."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pallas_gateway.store.database import Store, open_store
from support.gateway.postgres import shared_postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    type Run = Callable[[Callable[[Connection], object]], object]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'gateway.db'}"
    return shared_postgres().new_database()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A store that is open."""
    store = open_store(url)
    yield store
    asyncio.run(store.close())
