"""Whose store it is: the first deployment's that opens it, until a person says otherwise."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from pallas_common.protocol.gateway import INSTANCE_FILE
from pallas_gateway.store.database import do_in_store, open_store
from pallas_gateway.store.deployment.instance import Claimant, adopt, claim, owner, see
from pallas_gateway.store.errors import StoreError, StoreUnavailableError, StoreUnusableError
from pallas_gateway.store.tables import INSTANCE
from support.gateway.older_store import OF_0_8, go_back

if TYPE_CHECKING:
    from pathlib import Path


def claimant(folder: Path, name: str) -> Claimant:
    (folder / name).mkdir(exist_ok=True)
    return Claimant(deployment=name, directory=folder / name)


def opened(url: str, who: Claimant) -> None:
    asyncio.run(open_store(url, partial(claim, claimant=who)).close())


def test_it_is_the_first_ones_and_every_other_one_is_refused_by_name(url: str, tmp_path: Path) -> None:
    shop, copy = claimant(tmp_path, "shop"), claimant(tmp_path, "copy")
    opened(url, shop)
    opened(url, shop)
    with pytest.raises(StoreUnusableError, match=r"'shop' on .*last seen.*'copy' on .*store adopt"):
        opened(url, copy)
    assert copy.id is None
    (copy.directory / INSTANCE_FILE).write_text("0" * 32)
    with pytest.raises(StoreUnusableError, match="names another one"):
        opened(url, copy)
    opened(url, shop)
    assert (shop.directory / INSTANCE_FILE).stat().st_mode & 0o777 == 0o600


def test_an_older_store_of_another_deployment_is_refused_before_it_is_changed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(url, claimant(tmp_path, "shop"))
    monkeypatch.setattr("pallas_gateway.store.schema.HEAD", "9000")
    with pytest.raises(StoreUnusableError, match="'shop'"):
        opened(url, claimant(tmp_path, "copy"))


def test_of_those_who_open_an_empty_database_at_a_time_one_wins(url: str, tmp_path: Path) -> None:
    async def open_for(name: str) -> str:
        try:
            store = await asyncio.to_thread(
                open_store, url, partial(claim, claimant=claimant(tmp_path, name))
            )
        except StoreError as error:
            return str(error)
        await store.close()
        return name

    async def live() -> list[str]:
        return await asyncio.gather(*(open_for(f"shop-{number}") for number in range(4)))

    found = asyncio.run(live())
    (winner,) = (each for each in found if each.startswith("shop-"))
    assert all(f"'{winner}'" in each for each in found if each != winner)
    assert do_in_store(url, owner) is not None


def test_who_takes_over_shuts_the_other_one_out(url: str, tmp_path: Path) -> None:
    shop, copy = claimant(tmp_path, "shop"), claimant(tmp_path, "copy")
    opened(url, shop)
    assert shop.id is not None
    assert do_in_store(url, partial(see, id_=shop.id, claimant=shop)) is None
    do_in_store(url, partial(adopt, claimant=copy))
    opened(url, copy)
    other = do_in_store(url, partial(see, id_=shop.id, claimant=shop))
    assert other is not None
    assert (other.deployment, other.id) == ("copy", copy.id)
    with pytest.raises(StoreUnusableError, match="'copy'"):
        opened(url, shop)


def test_a_restored_store_of_before_has_no_owner_and_takes_the_next_one(url: str, tmp_path: Path) -> None:
    shop = claimant(tmp_path, "shop")
    opened(url, shop)
    before = shop.id
    assert before is not None
    do_in_store(url, partial(go_back, schema=OF_0_8))
    assert do_in_store(url, owner) is None
    assert do_in_store(url, partial(see, id_=before, claimant=shop)) is None
    opened(url, shop)
    found = do_in_store(url, owner)
    assert found is not None
    assert found.id == shop.id == before


def test_without_its_file_nothing_is_owned(url: str, tmp_path: Path) -> None:
    nowhere = Claimant(deployment="shop", directory=tmp_path / "missing")
    with pytest.raises(StoreUnavailableError, match="instance cannot be written"):
        opened(url, nowhere)
    opened(url, claimant(tmp_path, "shop"))
    rows = do_in_store(url, lambda connection: connection.execute(select(INSTANCE.c.deployment)).all())
    assert [row.deployment for row in rows] == ["shop"]
