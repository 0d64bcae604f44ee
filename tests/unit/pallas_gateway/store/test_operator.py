"""The first human token: one, in its file, that counts."""

from __future__ import annotations

import asyncio
import datetime as dt
from functools import partial
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from pallas_common.protocol.gateway import OPERATOR_FILE
from pallas_common.secrets.tokens import is_token, new_token, token_digest
from pallas_gateway.identity.grants import EVERYTHING
from pallas_gateway.store import tokens
from pallas_gateway.store.database import Store, open_store
from pallas_gateway.store.deployment.operator import ensure_operator_token
from pallas_gateway.store.errors import StoreUnavailableError
from pallas_gateway.store.tables import TOKENS

if TYPE_CHECKING:
    from pathlib import Path


def held(folder: Path) -> str:
    return (folder / OPERATOR_FILE).read_text().strip()


async def found(store: Store, text: str) -> tokens.Token | None:
    return await store.read(partial(tokens.by_digest, digest=token_digest(text)))


async def those_that_count(store: Store) -> list[str]:
    listed = await store.read(partial(tokens.listed, tenant="default"))
    return [token.digest for token in listed.tokens]


def test_it_is_made_at_the_first_start_and_kept(store: Store, tmp_path: Path) -> None:
    async def live() -> None:
        assert await ensure_operator_token(store, tmp_path)
        text = held(tmp_path)
        assert is_token(text)
        token = await found(store, text)
        assert token is not None
        assert (token.role, token.grants, token.name) == ("human", (EVERYTHING,), "operator")
        assert (tmp_path / OPERATOR_FILE).stat().st_mode & 0o777 == 0o600
        assert not await ensure_operator_token(store, tmp_path)
        assert held(tmp_path) == text

    asyncio.run(live())
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith("gateway.db")}
    assert left == {OPERATOR_FILE}


@pytest.mark.parametrize(
    "what", ["gone", "torn", "unknown", "revoked", "expired", "less", "malformed", "a link"]
)
def test_one_that_does_not_fit_the_store_is_replaced_and_counts_no_more(
    store: Store, tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def live() -> None:
        await ensure_operator_token(store, tmp_path)
        before = held(tmp_path)
        path = tmp_path / OPERATOR_FILE
        changes: dict[str, dict[str, object]] = {
            "revoked": {"revoked": tokens.now()},
            "expired": {"expires": tokens.now() - dt.timedelta(days=1)},
            "less": {"grants": '["view:agents"]'},
            "malformed": {"grants": "?"},
        }
        if values := changes.get(what):
            await store.write(lambda connection: connection.execute(update(TOKENS).values(**values)))
        elif what == "gone":
            path.unlink()
        elif what == "a link":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
        else:
            path.write_text({"torn": before[:30], "unknown": new_token("human")}[what])
        caplog.clear()
        assert await ensure_operator_token(store, tmp_path)
        after = held(tmp_path)
        assert after != before
        assert await those_that_count(store) == [token_digest(after)]
        assert not path.is_symlink()
        (record,) = (each for each in caplog.records if "operator" in each.getMessage())
        assert record.levelname == "WARNING"
        assert before not in caplog.text
        assert after not in caplog.text

    asyncio.run(live())


def test_two_processes_that_start_at_a_time_make_one(url: str, tmp_path: Path) -> None:
    async def live() -> None:
        stores = [await asyncio.to_thread(open_store, url) for _ in range(4)]
        made = await asyncio.gather(*(ensure_operator_token(store, tmp_path) for store in stores))
        assert sorted(made) == [False, False, False, True]
        assert await those_that_count(stores[0]) == [token_digest(held(tmp_path))]
        for store in stores:
            await store.close()

    asyncio.run(live())


def test_nothing_is_stored_where_the_file_cannot_be_written(store: Store, tmp_path: Path) -> None:
    async def live() -> None:
        with pytest.raises(StoreUnavailableError, match="operator"):
            await ensure_operator_token(store, tmp_path / "missing")
        assert await those_that_count(store) == []

    asyncio.run(live())
