"""What tests of threads need: to do something in one transaction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pallas_gateway.store.database import Store
    from support.gateway.turns.rows import Do


@pytest.fixture
def do(store: Store) -> Do:
    """On each kind of database."""
    return lambda what: asyncio.run(store.write(what, durable=False))
