"""What a subscriber is told: each change once, in order, as long as it may; and nothing is missed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pallas_gateway.directory.events.log import EventLog
from pallas_gateway.directory.events.subscriptions import (
    Change,
    Subscriber,
    Subscriptions,
    TooManySubscriptionsError,
)
from pallas_gateway.directory.events.topics import Topic

A, B, C = (Change("resource", uri) for uri in "abc")


def topic(change: Change) -> Topic:
    return Topic(change.uri or change.kind)


class Rig:
    """A log, its subscriptions, and who may hear of what."""

    def __init__(self, most: int = 10) -> None:
        self.log = EventLog()
        self.all = Subscriptions(self.log, most=most)
        self.forbidden: set[Change] = set()

    def subscriber(self, *changes: Change, principal: str = "me") -> Subscriber:
        new = self.all.subscriber(principal, lambda change: change not in self.forbidden)
        for change in changes:
            self.all.subscribe(new, change, topic(change))
        return new

    def change(self, *changes: Change) -> None:
        self.log.publish(*map(topic, changes))


def test_changes_are_told_once_in_the_order_of_the_first() -> None:
    rig = Rig()
    one, other = rig.subscriber(A, B, C), rig.subscriber(B, principal="you")
    rig.change(C, A, C, C, A)
    assert one.take() == [C, A]
    assert one.take() == []
    assert other.take() == []
    rig.change(A)
    assert one.take() == [A]


@given(some.lists(some.sampled_from([A, B, C, None])))
def test_between_two_takes_each_is_told_once_in_the_order_of_the_first(acts: list[Change | None]) -> None:
    rig = Rig()
    one = rig.subscriber(A, B, C)
    expected: OrderedDict[Change, None] = OrderedDict()
    for act in [*acts, None]:
        if act is not None:
            rig.change(act)
            expected.setdefault(act)
        else:
            assert one.take() == list(expected)
            expected.clear()


def test_what_changed_between_the_read_and_the_subscription_is_told_at_once() -> None:
    rig = Rig()
    rig.log.was_read("me", topic(A), rig.log.sequence)
    rig.change(A)
    assert rig.subscriber(A).take() == [A]
    assert rig.subscriber(A, principal="you").take() == []
    rig.log.was_read("me", topic(A), rig.log.sequence)
    assert rig.subscriber(A).take() == []


def test_each_delivery_asks_again_and_a_subscription_ends_with_the_grant() -> None:
    rig = Rig()
    one = rig.subscriber(A, B)
    rig.change(A, B)
    rig.forbidden.add(A)
    assert one.take() == [B]
    rig.forbidden.clear()
    rig.change(A)
    assert one.take() == [], "the subscription has ended"
    assert rig.all.resources == 1


def test_two_uris_of_one_thing_are_both_told() -> None:
    rig = Rig()
    one = rig.subscriber()
    for change in (A, B):
        rig.all.subscribe(one, change, Topic("same"))
    rig.log.publish(Topic("same"))
    assert one.take() == [A, B]
    rig.all.unsubscribe(one, A)
    rig.log.publish(Topic("same"))
    assert one.take() == [B]


def test_what_is_no_more_subscribed_to_is_not_told_even_if_it_is_pending() -> None:
    rig = Rig()
    one = rig.subscriber(A, B)
    rig.change(A, B)
    rig.all.unsubscribe(one, A)
    rig.all.unsubscribe(one, A)
    assert one.take() == [B]


def test_what_could_not_be_told_comes_again_first() -> None:
    rig = Rig()
    one = rig.subscriber(A, B, C)
    rig.change(B)
    taken = one.take()
    rig.change(C, A, B)
    rig.all.unsubscribe(one, C)
    one.put_back([*taken, C])
    assert one.take() == [B, A]


def test_a_principal_has_as_many_as_it_may_and_others_are_not_counted() -> None:
    rig = Rig(most=2)
    one = rig.subscriber(A)
    two = rig.subscriber(B)
    with pytest.raises(TooManySubscriptionsError, match="subscribed to 2 resources"):
        rig.all.subscribe(one, C, topic(C))
    with pytest.raises(TooManySubscriptionsError, match="2 sessions and streams"):
        rig.subscriber()
    rig.subscriber(A, B, principal="you")
    rig.all.subscribe(one, A, topic(A))
    two.end("left")
    rig.all.subscribe(one, C, topic(C))
    rig.subscriber()


def test_the_end_takes_everything_with_it() -> None:
    rig = Rig()
    one = rig.subscriber(A, B)
    rig.change(A)
    rig.subscriber(A, principal="you")
    rig.all.revoke("me")
    assert one.ended == "revoked"
    assert (rig.all.subscribers, rig.all.resources) == (1, 1)
    rig.change(A)
    rig.forbidden.add(A)
    assert one.take() == []
    one.end("left")
    assert (one.ended, rig.all.subscribers, rig.all.resources) == ("revoked", 1, 1)
    rig.all.drain()
    assert rig.all.subscribers == 0
    assert rig.subscriber(A).ended == "drained"
    assert (rig.all.subscribers, rig.all.resources) == (0, 0)


def test_who_waits_is_woken_by_a_change_and_by_the_end() -> None:
    async def act() -> None:
        rig = Rig()
        one = rig.subscriber(A)
        waiting = asyncio.create_task(one.wait(60.0))
        await asyncio.sleep(0)
        rig.change(B)
        await asyncio.sleep(0)
        assert not waiting.done()
        rig.change(A)
        await waiting
        await one.wait(60.0)
        one.take()
        waiting = asyncio.create_task(one.wait(60.0))
        await asyncio.sleep(0)
        one.end("drained")
        await waiting
        await one.wait(60.0)

    asyncio.run(act())


def test_waiting_ends_by_itself() -> None:
    asyncio.run(Rig().subscriber(A).wait(0.001))
