"""The rows of sessions, in both databases."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert, update

from pallas_gateway.identity.sources import Issued, StoredSession
from pallas_gateway.store import tokens
from pallas_gateway.store.revisions import revision
from pallas_gateway.store.sessions import LAST_USED_INTERVAL, SessionRecords
from pallas_gateway.store.tables import SESSIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from pallas_gateway.store.database import Store

NOW = 1_790_000_000.0
ADA = Issued(id="oidc:ada@https://login.example.com", name="Ädä ☃", groups=("ops", "dev"))


class Kept:
    """The rows, asked from a test that does nothing else meanwhile."""

    def __init__(self, store: Store) -> None:
        self.store, self.records = store, SessionRecords(store)

    def do[T](self, what: Awaitable[T]) -> T:
        async def whole() -> T:
            return await what

        return asyncio.run(whole())

    def open(self, digest: str, at: float = NOW, most: int = 50, **fields: Any) -> StoredSession:
        given = fields or {"credential": "c"}
        session = StoredSession(digest=digest, created=at, expires=at + 100, last_used=at, **given)
        self.do(self.records.open(session, most))
        return session

    def found(self, *digests: str) -> Mapping[str, StoredSession]:
        return self.do(self.records.find(digests))

    @property
    def revision(self) -> int:
        return self.do(self.store.read(partial(revision, topic=tokens.TOPIC)))


@pytest.fixture
def kept(store: Store) -> Kept:
    return Kept(store)


def test_what_is_kept_is_found(kept: Kept) -> None:
    by_token, by_issuer = kept.open("a"), kept.open("b", issued=ADA)
    assert kept.found("a", "b", "c") == {"a": by_token, "b": by_issuer}


def test_a_closed_one_is_gone_and_others_are_told(kept: Kept) -> None:
    kept.open("a")
    before = kept.revision
    assert kept.do(kept.records.close("a"))
    assert (kept.found("a"), kept.revision) == ({}, before + 1)
    assert not kept.do(kept.records.close("a"))
    assert kept.revision == before + 1


@pytest.mark.parametrize("issued", [False, True])
def test_of_one_principal_the_newest_stay(kept: Kept, issued: bool) -> None:
    def fields(name: str) -> dict[str, Any]:
        if not issued:
            return {"credential": name}
        return {"issued": replace(ADA, id=f"oidc:{name}@https://login.example.com")}

    kept.open("other", NOW - 10, **fields("Ada"))
    kept.open("longer", NOW - 10, **fields("ada2"))
    before = kept.revision
    for number in range(4):
        kept.open(f"s{number}", NOW + number, most=2, **fields("ada"))
    found = kept.found("other", "longer", "s0", "s1", "s2", "s3")
    assert set(found) == {"other", "longer", "s2", "s3"}
    assert kept.revision == before + 2


def test_the_last_use_is_noted_to_the_minute(kept: Kept) -> None:
    kept.open("a")
    kept.do(kept.records.touch({"a": NOW + LAST_USED_INTERVAL - 1, "none": NOW}))
    assert kept.found("a")["a"].last_used == NOW
    kept.do(kept.records.touch({"a": NOW + LAST_USED_INTERVAL}))
    assert kept.found("a")["a"].last_used == NOW + LAST_USED_INTERVAL


def test_what_is_over_is_forgotten(kept: Kept) -> None:
    kept.open("expired", NOW - 100)
    kept.open("idle", NOW - 60)
    kept.open("used", NOW - 60)
    kept.do(kept.records.touch({"used": NOW}))
    assert kept.do(kept.records.forget(NOW, 60)) == 2
    assert set(kept.found("expired", "idle", "used")) == {"used"}


@pytest.mark.parametrize(
    "principal",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"id": 1, "name": "", "groups": []}',
        '{"id": "", "name": "", "groups": [1]}',
        "[" * 9999,
    ],
)
def test_a_row_that_is_no_sessions_counts_as_none(kept: Kept, principal: str) -> None:
    kept.open("a")
    kept.open("b")
    change = update(SESSIONS).where(SESSIONS.c.digest == "a").values(principal=principal)
    kept.do(kept.store.write(lambda connection: connection.execute(change)))
    assert set(kept.found("a", "b")) == {"b"}


def test_another_tenants_is_not_found(kept: Kept) -> None:
    session = kept.open("a")
    kept.do(kept.records.close("a"))
    row = insert(SESSIONS).values(
        tenant="other",
        digest=session.digest,
        credential="c",
        **dict.fromkeys(("created", "expires"), tokens.now()),
    )
    kept.do(kept.store.write(lambda connection: connection.execute(row)))
    assert kept.found("a") == {}
    assert not kept.do(kept.records.close("a"))
