"""The rows of tokens, in both databases."""

from __future__ import annotations

import asyncio
import datetime as dt
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text, update

from pallas_common.secrets.tokens import token_digest
from pallas_gateway.identity.grants import EVERYTHING, parse_grant
from pallas_gateway.store import tokens
from pallas_gateway.store.errors import MalformedTokenError
from pallas_gateway.store.revisions import revision
from pallas_gateway.store.tables import TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from pallas_gateway.store.database import Store

TENANT = "default"


class Kept:
    """The store, asked from a test that does nothing else meanwhile."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def read[T](self, what: Callable[[Connection], T]) -> T:
        return asyncio.run(self.store.read(what))

    def write[T](self, what: Callable[[Connection], T]) -> T:
        return asyncio.run(self.store.write(what))

    def create(self, **fields: Any) -> tokens.NewToken:
        given = {"tenant": TENANT, "name": "laptop", "role": "human", **fields}
        return self.write(partial(tokens.create, **given))

    def found(self, text_: str) -> tokens.Token | None:
        return self.read(partial(tokens.by_digest, digest=token_digest(text_)))

    @property
    def revision(self) -> int:
        return self.read(partial(revision, topic=tokens.TOPIC))

    def execute(self, statement: str) -> None:
        self.write(lambda connection: connection.execute(text(statement)))

    def set(self, token: str, **values: Any) -> None:
        self.write(
            lambda connection: connection.execute(update(TOKENS).where(TOKENS.c.id == token).values(**values))
        )


@pytest.fixture
def kept(store: Store) -> Kept:
    return Kept(store)


def test_a_token_is_found_by_its_digest_as_it_was_made(kept: Kept) -> None:
    expires = dt.datetime(2100, 1, 2, 3, 4, 5, 678901, dt.timezone(dt.timedelta(hours=2)))
    new = kept.create(
        role="agent",
        agent="jarvis",
        agent_uid="u-1",
        grants=[parse_grant("run:agents:friday"), parse_grant("run:agents:team-*")],
        expires=expires,
        created_by="tok_1",
    )
    found = kept.found(new.text)
    assert found == new.token
    assert (found.role, found.agent, found.agent_uid, found.expires) == ("agent", "jarvis", "u-1", expires)
    assert found.created.tzinfo is dt.UTC
    assert [str(grant) for grant in found.grants] == ["run:agents:friday", "run:agents:team-*"]
    assert found.counts(tokens.now())
    assert kept.found(new.text[:-1]) is None


def test_the_text_of_a_token_is_nowhere_in_the_store(kept: Kept) -> None:
    new = kept.create()
    rows = kept.read(lambda connection: connection.execute(text("SELECT * FROM tokens")).all())
    assert new.text not in str(rows)
    assert new.text not in repr(new)
    assert new.token.digest not in repr(new)


def test_a_revoked_token_does_not_count(kept: Kept) -> None:
    new = kept.create()
    before = kept.revision
    assert kept.write(partial(tokens.revoke, tenant=TENANT, token=new.token.id))
    found = kept.found(new.text)
    assert found is not None
    assert not found.counts(tokens.now())
    assert kept.revision == before + 1
    # A second time changes nothing.
    assert kept.write(partial(tokens.revoke, tenant=TENANT, token=new.token.id))
    assert kept.found(new.text) == found
    assert kept.revision == before + 1


def test_nobody_revokes_or_rotates_what_another_tenant_has(kept: Kept) -> None:
    new = kept.create()
    assert not kept.write(partial(tokens.revoke, tenant="other", token=new.token.id))
    assert kept.write(partial(tokens.rotate, tenant="other", token=new.token.id)) is None
    assert kept.read(partial(tokens.by_id, tenant="other", token=new.token.id)) is None
    assert kept.read(partial(tokens.listed, tenant="other")) == ([], [])
    assert kept.found(new.text) == new.token


def test_an_expired_token_does_not_count(kept: Kept) -> None:
    new = kept.create(expires=tokens.now() - dt.timedelta(seconds=1))
    found = kept.found(new.text)
    assert found is not None
    assert not found.counts(tokens.now())
    assert kept.read(partial(tokens.listed, tenant=TENANT)) == ([], [])
    assert kept.read(partial(tokens.listed, tenant=TENANT, every=True)) == ([new.token], [])
    assert kept.write(partial(tokens.rotate, tenant=TENANT, token=new.token.id)) is None


def test_they_are_listed_in_the_order_in_which_they_were_made(kept: Kept) -> None:
    made = [kept.create(name=name).token for name in ("b", "a", "c")]
    assert kept.read(partial(tokens.listed, tenant=TENANT)).tokens == made


def test_rotation_replaces_a_token_at_once(kept: Kept) -> None:
    old = kept.create(grants=[EVERYTHING], expires=tokens.now() + dt.timedelta(days=30))
    new = kept.write(partial(tokens.rotate, tenant=TENANT, token=old.token.id, created_by="tok_1"))
    assert new is not None
    assert new.text != old.text
    assert kept.found(new.text) == new.token
    assert (new.token.rotated_from, new.token.name, new.token.grants) == (
        old.token.id,
        "laptop",
        (EVERYTHING,),
    )
    assert old.token.expires is not None
    assert new.token.expires is not None
    assert new.token.expires > old.token.expires, "it lasts as long as the old one did"
    found = kept.found(old.text)
    assert found is not None
    assert not found.counts(tokens.now())
    assert kept.write(partial(tokens.rotate, tenant=TENANT, token=old.token.id)) is None


def test_a_rotated_token_counts_for_its_time_of_grace(kept: Kept) -> None:
    old = kept.create()
    grace = dt.timedelta(hours=1)
    assert kept.write(partial(tokens.rotate, tenant=TENANT, token=old.token.id, grace=grace)) is not None
    found = kept.found(old.text)
    assert found is not None
    assert found.counts(tokens.now())
    assert not found.counts(tokens.now() + grace)


def test_grace_does_not_make_a_token_last_longer(kept: Kept) -> None:
    old = kept.create(expires=tokens.now() + dt.timedelta(minutes=1))
    kept.write(partial(tokens.rotate, tenant=TENANT, token=old.token.id, grace=dt.timedelta(hours=1)))
    found = kept.found(old.text)
    assert found is not None
    assert found.expires == old.token.expires


def test_of_those_who_rotate_one_token_at_a_time_one_gets_a_new_one(kept: Kept) -> None:
    old = kept.create()

    async def both() -> list[tokens.NewToken | None]:
        one = partial(tokens.rotate, tenant=TENANT, token=old.token.id)
        return list(await asyncio.gather(*(kept.store.write(one) for _ in range(4))))

    assert len(list(filter(None, asyncio.run(both())))) == 1


def test_the_tokens_of_a_deleted_agent_are_revoked_and_no_others(kept: Kept) -> None:
    one, two = (kept.create(role="agent", agent="jarvis", agent_uid="u-1") for _ in range(2))
    others = [
        kept.create(role="agent", agent="jarvis", agent_uid="u-2"),
        kept.create(role="agent", agent="jarvis"),
        kept.create(role="agent", agent="friday", agent_uid="u-1"),
        kept.create(),
        kept.create(tenant="other", role="agent", agent="jarvis", agent_uid="u-1"),
    ]
    revoke = partial(tokens.revoke_all_of_agent, tenant=TENANT, agent="jarvis", uid="u-1")
    assert kept.write(revoke) == sorted([one.token.id, two.token.id])
    assert kept.write(revoke) == []
    every = [one, two, *others]
    found = kept.read(partial(tokens.by_digests, digests=[new.token.digest for new in every]))
    revoked = {digest for digest, token in found.items() if isinstance(token, tokens.Token) and token.revoked}
    assert revoked == {one.token.digest, two.token.digest}
    assert kept.read(partial(tokens.agents, tenant=TENANT)) == {
        ("jarvis", "u-2"),
        ("jarvis", None),
        ("friday", "u-1"),
    }
    assert kept.write(partial(revoke, uid=None)) == [others[1].token.id]


def test_the_last_use_is_kept_to_the_minute(kept: Kept) -> None:
    new = kept.create()
    moment = tokens.now()
    for seconds, expected in ((0, 0), (59, 0), (60, 60), (30, 60)):
        used = {new.token.id: moment + dt.timedelta(seconds=seconds), "tok_unknown": moment}
        kept.write(partial(tokens.touch, used=used))
        found = kept.found(new.text)
        assert found is not None
        assert found.last_used == moment + dt.timedelta(seconds=expected)


def test_a_change_is_counted_and_a_use_is_none(kept: Kept) -> None:
    assert kept.revision == 0
    new = kept.create()
    kept.create(tenant="other")
    assert kept.revision == 2
    kept.write(partial(tokens.touch, used={new.token.id: tokens.now()}))
    assert kept.revision == 2


def test_what_has_not_counted_for_long_is_forgotten(kept: Kept) -> None:
    ago = tokens.now() - tokens.KEPT - dt.timedelta(minutes=1)
    revoked, expired, recent, lasting = (kept.create(name=name) for name in ("a", "b", "c", "d"))
    kept.set(revoked.token.id, revoked=ago)
    kept.set(expired.token.id, expires=ago)
    kept.set(recent.token.id, revoked=tokens.now())
    assert kept.write(tokens.forget_old) == 2
    left = kept.read(partial(tokens.listed, tenant=TENANT, every=True)).tokens
    assert [token.id for token in left] == [recent.token.id, lasting.token.id]


@pytest.mark.parametrize(
    "values",
    [
        {"grants": "no JSON"},
        {"grants": '{"*": 1}'},
        {"grants": "[1]"},
        {"grants": '["run"]'},
        {"role": "agent"},
        {"agent": "jarvis"},
    ],
    ids=str,
)
def test_a_malformed_row_is_named_and_hides_no_other(kept: Kept, values: dict[str, str]) -> None:
    bad, good = kept.create(), kept.create()
    kept.set(bad.token.id, **values)
    with pytest.raises(MalformedTokenError, match=bad.token.id) as caught:
        kept.found(bad.text)
    assert caught.value.token == bad.token.id
    assert kept.read(partial(tokens.listed, tenant=TENANT)) == ([good.token], [bad.token.id])
    assert kept.write(partial(tokens.revoke, tenant=TENANT, token=bad.token.id))


def test_a_time_that_is_none_is_malformed(kept: Kept) -> None:
    if not kept.store.is_sqlite:
        pytest.skip("PostgreSQL takes no such row")
    new = kept.create()
    for column in ("created", "expires", "revoked", "last_used"):
        kept.execute(f"UPDATE tokens SET {column} = 'soon'")
        with pytest.raises(MalformedTokenError):
            kept.found(new.text)
        kept.set(new.token.id, created=tokens.now(), expires=None, revoked=None, last_used=None)
        assert kept.found(new.text) is not None
