"""Who a bearer is, and what ends when that changes."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pallas_common.secrets.tokens import new_token, token_digest
from pallas_gateway.access.predicate import may
from pallas_gateway.identity.errors import (
    AuthenticationUnavailableError,
    InvalidTokenError,
    MalformedRecordError,
    MissingTokenError,
    TooManyUnknownError,
)
from pallas_gateway.identity.grants import KINDS, VERBS, Permission
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.lookups import BATCH, MOST_WAITING
from pallas_gateway.identity.principals import (
    MOST_UNKNOWN,
    REFETCH_INTERVAL,
    REMEMBERED,
    UNKNOWN_REMEMBERED,
    WRONG_PER_MINUTE,
    Principals,
)
from pallas_gateway.identity.sources import AgentKey, StoredToken
from support.gateway.tokens import TokensInMemory, WorkersInMemory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pallas_gateway.identity.principal import Principal


class House:
    """Principals with all that they ask, at a time that the test sets."""

    def __init__(self, *, anybody: bool = False) -> None:
        self.now = 1000.0
        self.stored = TokensInMemory()
        self.workers = WorkersInMemory()
        self.in_flight = InFlight()
        self.ended: list[str] = []
        self.revoked: list[str] = []
        self.principals = Principals(
            self.stored,
            self.workers,
            self.in_flight,
            anybody=anybody,
            monotonic=lambda: self.now,
            clock=lambda: self.now,
        )
        self.principals.on_revoked(self.revoked.append)

    async def enter(self, token: str, name: str) -> Principal:
        """Open a stream."""
        principal = await self.principals.of(token)
        self.in_flight.enter(principal, lambda: self.ended.append(name))
        return principal


def run(test: Callable[[House], Awaitable[None]], *, anybody: bool = False) -> None:
    async def whole() -> None:
        await test(House(anybody=anybody))

    asyncio.run(whole())


def test_a_stored_token_is_looked_up_once_in_a_while() -> None:
    async def test(house: House) -> None:
        text = house.stored.make("tok_1", "view:agents", "run:agents:j*")
        for _ in range(3):
            principal = await house.principals.of(text)
        assert principal.id == "tok_1"
        assert [str(grant) for grant in principal.grants] == ["view:agents", "run:agents:j*"]
        assert len(house.stored.asked) == 1
        house.now += REMEMBERED
        await house.principals.of(text)
        assert len(house.stored.asked) == 2

    run(test)


def test_those_who_come_together_are_looked_up_together() -> None:
    async def test(house: House) -> None:
        texts = [house.stored.make(f"tok_{number}") for number in range(BATCH * 2)]
        found = await asyncio.gather(*(house.principals.of(text) for text in texts * 2))
        assert [one.id for one in found] == [f"tok_{number}" for number in range(BATCH * 2)] * 2
        assert len(house.stored.asked) == 2

    run(test)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "",
        "plls_human_x",
        "plls_human_" + "0" * 43 + "_00000!",
        "plls_human_" + "0" * 43 + "_000000",
        "eyJ.eyJ.x",
    ],
)
def test_what_no_token_can_be_is_not_looked_up(text: str) -> None:
    async def test(house: House) -> None:
        with pytest.raises(InvalidTokenError, match="mistyped"):
            await house.principals.of(text)
        assert not house.stored.asked

    run(test)


def test_nobody_is_remembered_for_a_short_time_and_until_tokens_change() -> None:
    async def test(house: House) -> None:
        text = new_token("human")

        async def asked() -> int:
            with pytest.raises(InvalidTokenError):
                await house.principals.of(text)
            return len(house.stored.asked)

        assert [await asked(), await asked()] == [1, 1]
        house.now += UNKNOWN_REMEMBERED
        assert await asked() == 2
        house.stored.put(text, house.stored.rows[token_digest(house.stored.make("tok_1"))])
        await house.principals.recheck()
        with pytest.raises(InvalidTokenError):  # a row of another digest: the store is not to be believed
            await house.principals.of(text)

    run(test)


def test_a_flood_of_unknown_tokens_costs_few_queries_and_keeps_nobody_out() -> None:
    async def test(house: House) -> None:
        right = house.stored.make("tok_1")
        for _ in range(WRONG_PER_MINUTE):
            with pytest.raises(InvalidTokenError):
                await house.principals.of(new_token("human"), "192.0.2.1")
        before = len(house.stored.asked)
        wrong = [house.principals.of(new_token("human"), "192.0.2.1") for _ in range(BATCH - 1)]
        *refused, principal = await asyncio.gather(
            *wrong, house.principals.of(right, "192.0.2.1"), return_exceptions=True
        )
        assert all(isinstance(each, InvalidTokenError) for each in refused)
        assert not isinstance(principal, BaseException)
        assert principal.id == "tok_1"
        assert len(house.stored.asked) == before + 1

    run(test)


def test_what_waits_is_bounded() -> None:
    async def test(house: House) -> None:
        wrong = [asyncio.create_task(house.principals.of(new_token("human"))) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyUnknownError):
            await house.principals.of(new_token("human"))
        await asyncio.gather(*wrong, return_exceptions=True)
        for number in range(MOST_UNKNOWN):
            house.principals._unknown.setdefault(str(number), 0.0)
        with pytest.raises(InvalidTokenError):
            await house.principals.of(new_token("human"))
        assert len(house.principals._unknown) <= MOST_UNKNOWN + MOST_WAITING

    run(test)


def test_a_store_that_is_away_is_no_reason_to_call_a_token_wrong() -> None:
    async def test(house: House) -> None:
        text = house.stored.make("tok_1")
        known = house.stored.make("tok_2")
        await house.principals.of(known)
        house.stored.failure = OSError("away")
        with pytest.raises(AuthenticationUnavailableError):
            await house.principals.of(text)
        assert (await house.principals.of(known)).id == "tok_2"
        await house.principals.look()
        house.stored.failure = None
        assert (await house.principals.of(text)).id == "tok_1"

    run(test)


def test_a_damaged_record_is_named_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def test(house: House) -> None:
        text = new_token("human")
        house.stored.put(text, MalformedRecordError("tok_bad", "grants"))
        with caplog.at_level(logging.ERROR), pytest.raises(MalformedRecordError) as raised:
            await house.principals.of(text)
        assert "tok_bad" not in str(raised.value)
        assert text not in caplog.text

    run(test)


def test_expiry_counts_to_the_second_also_for_what_is_remembered_and_ends_nothing_under_way() -> None:
    async def test(house: House) -> None:
        text = house.stored.make("tok_1", expires=1010.0)
        await house.enter(text, "turn")
        house.now = 1009.9
        await house.principals.of(text)
        await house.principals.look()
        assert not house.ended
        house.now = 1010.0
        with pytest.raises(InvalidTokenError, match="expired"):
            await house.principals.of(text)
        await house.principals.look()
        assert house.ended == []
        assert house.revoked == []

    run(test)


def test_revocation_here_counts_at_once() -> None:
    async def test(house: House) -> None:
        mine, other = house.stored.make("tok_1"), house.stored.make("tok_2")
        await house.enter(mine, "mine")
        await house.enter(mine, "mine too")
        await house.enter(other, "other's")
        house.stored.revoke(mine)
        await house.principals.recheck()
        assert sorted(house.ended) == ["mine", "mine too"]
        assert house.revoked == ["tok_1"]
        with pytest.raises(InvalidTokenError, match="revoked"):
            await house.principals.of(mine)
        assert (await house.principals.of(other)).id == "tok_2"

    run(test)


def test_revocation_by_another_process_counts_at_the_next_look() -> None:
    async def test(house: House) -> None:
        text = house.stored.make("tok_1")
        await house.principals.look()
        await house.enter(text, "stream")
        await house.principals.look()
        assert not house.ended
        house.stored.revoke(text)
        house.stored.failure = OSError("away")
        await house.principals.look()
        house.stored.failure = None
        await house.principals.look()
        assert house.ended == ["stream"]
        with pytest.raises(InvalidTokenError):
            await house.principals.of(text)

    run(test)


def test_other_grants_end_streams_and_a_later_expiry_does_not() -> None:
    async def test(house: House) -> None:
        text = house.stored.make("tok_1", "view:agents", expires=2000.0)
        await house.enter(text, "stream")
        row = house.stored.rows[token_digest(text)]
        assert isinstance(row, StoredToken)
        house.stored.put(text, replace(row, principal=replace(row.principal, expires=1001.0)))
        await house.principals.recheck()
        assert not house.ended
        house.now = 1001.0
        await house.principals.look()
        assert not house.ended
        house.now = 1000.0
        house.stored.put(text, row)
        await house.principals.recheck()
        house.stored.put(text, replace(row, principal=replace(row.principal, expires=999.0)))
        await house.principals.recheck()
        assert house.ended == ["stream"], "replaced by another token, without a grace"
        house.stored.put(text, row)
        await house.enter(text, "next")
        house.stored.put(text, replace(row, principal=replace(row.principal, grants=())))
        await house.principals.recheck()
        assert house.ended == ["stream", "next"]

    run(test)


def test_what_was_read_before_a_change_is_not_remembered_after_it() -> None:
    async def test(house: House) -> None:
        text = house.stored.make("tok_1")
        find = house.stored.find

        async def slow(digests: list[str]) -> object:
            found = await find(digests)
            house.stored.revoke(text)
            await house.principals.recheck()
            return found

        house.stored.find = slow  # type: ignore[method-assign,assignment]
        await house.principals.of(text)
        house.stored.find = find  # type: ignore[method-assign]
        with pytest.raises(InvalidTokenError):
            await house.principals.of(text)

    run(test)


def test_a_workers_token_is_asked_for_once_when_it_is_not_known() -> None:
    async def test(house: House) -> None:
        first = house.workers.make("jarvis", 1, "run:agents:helper")
        found = await asyncio.gather(*(house.principals.of(first) for _ in range(3)))
        assert {one.id for one in found} == {"worker:jarvis/1"}
        assert house.workers.refetched == 1
        for _ in range(5):
            with pytest.raises(InvalidTokenError):
                await house.principals.of(new_token("agent"))
        assert house.workers.refetched == 1
        house.now += REFETCH_INTERVAL
        second = house.workers.make("jarvis", 2)
        assert (await house.principals.of(second)).id == "worker:jarvis/2"
        assert house.workers.refetched == 2
        with pytest.raises(InvalidTokenError):
            await house.principals.of(new_token("human"))
        assert house.workers.refetched == 2

    run(test)


def test_a_workers_token_goes_with_the_worker() -> None:
    async def test(house: House) -> None:
        text = house.workers.make("jarvis", 1)
        await house.enter(text, "its stream")
        await house.principals.look()
        assert not house.ended
        house.workers.known = house.workers.there = {}
        with pytest.raises(InvalidTokenError):
            await house.principals.of(text)
        await house.principals.look()
        assert house.ended == ["its stream"]

    run(test)


def test_the_tokens_of_deleted_agents_are_revoked() -> None:
    async def test(house: House) -> None:
        first = house.stored.make("tok_1", agent="jarvis", uid="u1")
        second = house.stored.make("tok_2", agent="jarvis", uid="u2")
        third = house.stored.make("tok_3", agent="friday")
        await house.enter(first, "of the deleted one")
        told: list[tuple[AgentKey, str]] = []
        house.principals.on_gone(lambda *each: told.append(each))
        await house.principals.agents_deleted(AgentKey("jarvis", "u1"))
        await house.principals.agents_deleted(AgentKey("jarvis", "u1"))
        assert told == [(AgentKey("jarvis", "u1"), "tok_1")]
        assert house.ended == ["of the deleted one"]
        assert (await house.principals.of(second)).agent == "jarvis"
        for declared in ({"jarvis": "u2"}, {"jarvis": None}, {"jarvis": "u2", "friday": "u9"}):
            await house.principals.keep_agents(declared)
            assert (await house.principals.of(second)).agent == "jarvis"
        await house.principals.keep_agents({"jarvis": "u3"})
        with pytest.raises(InvalidTokenError):
            await house.principals.of(second)
        fourth = house.stored.make("tok_4", agent="hal", uid="u4")
        await house.principals.keep_agents({"jarvis": "u3"})
        with pytest.raises(InvalidTokenError):
            await house.principals.of(fourth)
        assert (await house.principals.of(third)).agent == "friday", "agents.yaml may have it again"

    run(test)


def test_without_a_token_one_is_nobody_or_with_auth_none_somebody_who_may_all_but_approve() -> None:
    async def refused(house: House) -> None:
        with pytest.raises(MissingTokenError):
            await house.principals.of(None)

    async def let_in(house: House) -> None:
        anybody = await house.principals.of(None)
        for verb in VERBS:
            for kind in KINDS:
                assert may(anybody, Permission(verb, kind, "x")) == (verb != "approve")
        with pytest.raises(InvalidTokenError):
            await house.principals.of(new_token("human"))
        text = house.workers.make("jarvis", 1)
        house.now += REFETCH_INTERVAL
        assert (await house.principals.of(text)).role == "agent"

    run(refused)
    run(let_in, anybody=True)


def test_the_last_use_is_noted_of_stored_tokens_alone() -> None:
    async def test(house: House) -> None:
        await house.principals.of(house.stored.make("tok_1"))
        await house.principals.of(None)
        house.now += REFETCH_INTERVAL
        await house.principals.of(house.workers.make("jarvis", 1))
        house.now = 1234.0
        await house.principals.touch()
        assert house.stored.touched == {"tok_1": 1234.0}

    run(test, anybody=True)
