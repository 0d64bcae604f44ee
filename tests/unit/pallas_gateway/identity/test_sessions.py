"""Browsers that are logged in: who they are, how long, and what ends with them."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pallas_gateway.identity.errors import (
    AuthenticationUnavailableError,
    InvalidTokenError,
    NotForPeopleError,
)
from pallas_gateway.identity.grants import parse_grant
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.principal import Principal
from pallas_gateway.identity.principals import REMEMBERED, Principals
from pallas_gateway.identity.sessions import (
    IDLE,
    LONGEST,
    LONGEST_ISSUED,
    Sessions,
    csrf_token,
    is_text,
    new_text,
)
from pallas_gateway.identity.sources import Issued, StoredToken
from support.gateway.tokens import SessionsInMemory, TokensInMemory, WorkersInMemory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from pallas_gateway.identity.sources import StoredSession

ADA = Issued(id="oidc:ada@https://login.example.com", name="Ada", groups=("ops",))


class House:
    """Sessions with all that they ask, at a time that the test sets; it is `Groups` as well."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.tokens, self.workers, self.in_flight = TokensInMemory(), WorkersInMemory(), InFlight()
        self.stored = SessionsInMemory(self.tokens)
        self.groups = {"ops": (parse_grant("run:agents"),)}
        self.counts = True
        self.ended: list[str] = []
        self.start()

    def start(self) -> None:
        """Start anew, as a gateway does: with what is stored alone."""
        self.principals = Principals(
            self.tokens, self.workers, self.in_flight, monotonic=self.time, clock=self.time
        )
        self.sessions = Sessions(
            self.stored,
            self.principals,
            self.in_flight,
            groups=self,
            monotonic=self.time,
            clock=self.time,
        )

    def time(self) -> float:
        return self.now

    def issued_principal(self, issued: Issued) -> Principal | None:
        if not self.counts:
            return None
        grants = tuple(grant for group in issued.groups for grant in self.groups.get(group, ()))
        return Principal(id=issued.id, name=issued.name, role="human", grants=grants)

    async def enter(self, text: str, name: str) -> Principal:
        """Open a stream."""
        principal = await self.sessions.find(text)
        self.in_flight.enter(principal, lambda: self.ended.append(name))
        return principal


def run(test: Callable[[House], Awaitable[None]]) -> None:
    async def whole() -> None:
        await test(House())

    asyncio.run(whole())


def test_a_session_is_its_tokens_principal_and_its_text_is_nowhere() -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1", "run:agents")
        opened = await house.sessions.open_with_token(token)
        found = await house.sessions.find(opened.text)
        assert found == replace(await house.principals.of(token), expires=found.expires)
        assert found.credential == opened.principal.credential
        (row,) = house.stored.rows.values()
        assert row.digest == hashlib.sha256(opened.text.encode()).hexdigest()
        assert opened.text not in repr((row, found, opened))

    run(test)


def test_it_is_looked_up_once_in_a_while() -> None:
    async def test(house: House) -> None:
        text = (await house.sessions.open_with_token(house.tokens.make("tok_1"))).text
        for _ in range(5):
            await house.sessions.find(text)
        assert len(house.stored.asked) == 1
        house.now += REMEMBERED
        await house.sessions.find(text)
        assert len(house.stored.asked) == 2

    run(test)


def test_it_is_there_after_a_restart() -> None:
    async def test(house: House) -> None:
        texts = [
            (await house.sessions.open_with_token(house.tokens.make("tok_1"))).text,
            (await house.sessions.open_issued(ADA)).text,
        ]
        house.start()
        assert [(await house.sessions.find(text)).id for text in texts] == ["tok_1", ADA.id]

    run(test)


def test_agents_and_bearers_of_the_issuer_open_none() -> None:
    async def test(house: House) -> None:
        agents = house.tokens.make("tok_1", agent="jarvis")
        workers = house.workers.make("jarvis", 1)
        issuers = house.tokens.make("oidc:ada@x")
        await house.workers.refetch()
        for token in (agents, workers, issuers):
            with pytest.raises(NotForPeopleError):
                await house.sessions.open_with_token(token)
        assert house.stored.rows == {}

    run(test)


def test_it_ends_when_nobody_comes() -> None:
    async def test(house: House) -> None:
        text = (await house.sessions.open_with_token(house.tokens.make("tok_1"))).text
        for _ in range(3):
            house.now += IDLE - 1
            await house.sessions.find(text)
            await house.sessions.touch()
        house.now += IDLE
        with pytest.raises(InvalidTokenError):
            await house.sessions.find(text)

    run(test)


def test_a_use_that_was_noted_is_known_to_the_next_process() -> None:
    async def test(house: House) -> None:
        text = (await house.sessions.open_with_token(house.tokens.make("tok_1"))).text
        house.now += IDLE - 1
        await house.sessions.find(text)
        await house.sessions.touch()
        assert list(house.stored.touched.values()) == [house.now]

    run(test)


@pytest.mark.parametrize("by", ["token", "short token", "issuer"])
def test_it_ends_after_its_time(by: str) -> None:
    async def test(house: House) -> None:
        if by == "issuer":
            opened, lasts = await house.sessions.open_issued(ADA), LONGEST_ISSUED
        else:
            lasts = LONGEST if by == "token" else 500.0
            token = house.tokens.make("tok_1", expires=None if by == "token" else house.now + lasts)
            opened = await house.sessions.open_with_token(token)
        begun = house.now
        while house.now + IDLE / 2 < begun + lasts:
            house.now += IDLE / 2
            assert (await house.sessions.find(opened.text)).expires == begun + lasts
        house.now = begun + lasts
        with pytest.raises(InvalidTokenError):
            await house.sessions.find(opened.text)

    run(test)


def test_all_under_way_ends_with_the_token() -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1")
        await house.principals.look()
        text = (await house.sessions.open_with_token(token)).text
        other = (await house.sessions.open_with_token(house.tokens.make("tok_2"))).text
        await house.enter(text, "a stream")
        await house.enter(other, "another one's")
        house.tokens.revoke(token)
        await house.principals.look()
        assert house.ended == ["a stream"]
        with pytest.raises(InvalidTokenError):
            await house.sessions.find(text)
        await house.sessions.find(other)

    run(test)


def test_nothing_under_way_ends_when_the_time_is_over() -> None:
    async def test(house: House) -> None:
        await house.enter((await house.sessions.open_issued(ADA)).text, "the issuer's")
        token = house.tokens.make("tok_1")
        await house.enter((await house.sessions.open_with_token(token)).text, "the token's")
        house.now += LONGEST_ISSUED
        await house.principals.look()
        house.now += LONGEST
        await house.principals.look()
        await house.principals.recheck()
        assert house.ended == []

    run(test)


def test_all_under_way_ends_when_somebody_logs_out_and_nothing_else_does() -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1")
        texts = [(await house.sessions.open_with_token(token)).text for _ in range(2)]
        await house.enter(texts[0], "first")
        await house.enter(texts[1], "second")
        house.in_flight.enter(await house.principals.of(token), lambda: house.ended.append("the token's"))
        assert await house.sessions.close(texts[0])
        assert house.ended == ["first"]
        with pytest.raises(InvalidTokenError):
            await house.sessions.find(texts[0])
        await house.sessions.find(texts[1])
        assert not await house.sessions.close(texts[0])

    run(test)


def test_another_process_notices_that_somebody_has_logged_out() -> None:
    async def test(house: House) -> None:
        text = (await house.sessions.open_with_token(house.tokens.make("tok_1"))).text
        await house.principals.look()
        other_principals, other = house.principals, house.sessions
        await house.enter(text, "a stream")
        house.start()
        await house.stored.close(hashlib.sha256(text.encode()).hexdigest())
        await other_principals.look()
        assert house.ended == ["a stream"]
        with pytest.raises(InvalidTokenError):
            await other.find(text)

    run(test)


def test_what_the_groups_may_follows_from_the_settings_of_now() -> None:
    async def test(house: House) -> None:
        text = (await house.sessions.open_issued(ADA)).text
        assert [str(grant) for grant in (await house.sessions.find(text)).grants] == ["run:agents"]
        house.groups = {}
        assert (await house.sessions.find(text)).grants == ()
        await house.enter(text, "a stream")
        house.groups = {"ops": (parse_grant("*"),)}
        await house.principals.recheck()
        assert house.ended == ["a stream"]
        house.counts = False
        with pytest.raises(InvalidTokenError):
            await house.sessions.find(text)

    run(test)


def test_a_token_whose_grants_changed_ends_what_is_under_way() -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1", "run:agents")
        await house.principals.look()
        text = (await house.sessions.open_with_token(token)).text
        await house.enter(text, "a stream")
        (row,) = house.tokens.rows.values()
        assert isinstance(row, StoredToken)
        house.tokens.put(token, replace(row, principal=replace(row.principal, grants=())))
        await house.principals.look()
        assert house.ended == ["a stream"]
        assert (await house.sessions.find(text)).grants == ()

    run(test)


def test_a_token_that_was_rotated_counts_for_its_grace() -> None:
    async def test(house: House) -> None:
        token = house.tokens.make("tok_1")
        await house.principals.look()
        await house.enter((await house.sessions.open_with_token(token)).text, "a stream")
        (row,) = house.tokens.rows.values()
        assert isinstance(row, StoredToken)
        ending = replace(row.principal, expires=house.now + 100)
        house.tokens.put(token, replace(row, principal=ending))
        await house.principals.look()
        assert house.ended == []
        house.now += 100
        await house.principals.look()
        assert house.ended == [], "expiry ends nothing that is under way"
        house.tokens.put(token, replace(row, principal=replace(row.principal, expires=house.now - 1)))
        await house.principals.look()
        assert house.ended == ["a stream"], "replaced, without a grace"

    run(test)


def test_while_the_store_is_away_nothing_ends_and_nobody_comes_in() -> None:
    async def test(house: House) -> None:
        text = (await house.sessions.open_with_token(house.tokens.make("tok_1"))).text
        await house.enter(text, "a stream")
        house.stored.failure = OSError("away")
        with pytest.raises(OSError, match="away"):
            await house.principals.recheck()
        assert house.ended == []
        with pytest.raises(AuthenticationUnavailableError):
            await house.sessions.find(text)
        with pytest.raises(AuthenticationUnavailableError):
            await house.sessions.open_with_token(house.tokens.make("tok_2"))
        with pytest.raises(AuthenticationUnavailableError):
            await house.sessions.close(text)
        house.stored.failure = None
        await house.sessions.find(text)

    run(test)


@pytest.mark.parametrize("text", ["", "x", "A" * 42, "A" * 44, "A" * 42 + "=", "A" * 42 + "\n", "ä" * 43])
def test_what_is_no_sessions_text_is_not_looked_up(text: str) -> None:
    async def test(house: House) -> None:
        with pytest.raises(InvalidTokenError):
            await house.sessions.find(text)
        assert not await house.sessions.close(text)
        assert house.stored.asked == []

    run(test)


def test_texts_and_their_csrf_tokens() -> None:
    texts = [new_text() for _ in range(100)]
    assert all(map(is_text, texts))
    assert len({csrf_token(text) for text in texts}) == 100
    assert csrf_token(texts[0]) == csrf_token(texts[0]) != texts[0]
    assert len(csrf_token(texts[0])) == 43


def test_what_was_read_before_its_end_is_not_remembered_after_it() -> None:
    async def test(house: House) -> None:
        text = (await house.sessions.open_with_token(house.tokens.make("tok_1"))).text
        find = house.stored.find

        async def slow(digests: Sequence[str]) -> Mapping[str, StoredSession]:
            found = await find(digests)
            house.stored.find = find  # type: ignore[method-assign]
            await house.sessions.close(text)
            return found

        house.stored.find = slow  # type: ignore[method-assign]
        await house.sessions.find(text)
        with pytest.raises(InvalidTokenError):
            await house.sessions.find(text)

    run(test)
