"""Who follows what: one registry for both eras of the protocol.

Knows topics, principals' ids and what to ask before each delivery; not how a client is reached. A change marks it as
pending for everybody who follows it, which costs the same whether they read or not; each takes what is pending when it
can. What is pending is coalesced, so that it is bounded by what is subscribed to, and comes in the order of first
change.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pallas_gateway.directory.events.log import EventLog
    from pallas_gateway.directory.events.topics import Topic

MOST_SUBSCRIBERS = 20_000
"""Of all principals together."""

End = Literal["drained", "revoked", "expired", "left"]
"""Why there is nothing more to come: this process ends; the principal may no more; its time is up; it went away."""


class Change(NamedTuple):
    """What a subscriber is told: a resource was updated, or a list has changed."""

    kind: Literal["resource", "tools", "prompts", "resources"]
    uri: str | None = None
    """Of a resource."""


class TooManySubscriptionsError(Exception):
    """A principal has as many subscriptions or subscribers as one may have; the message says which and how many."""


class Subscriber:
    """One stream or session of a principal, and what it has not been told yet.

    Args:
        principal: its id.
        may: whether it may hear of a change; asked again before each delivery.
    """

    __slots__ = ("_changes", "_may", "_pending", "_registry", "_topics", "_waiting", "ended", "principal")

    def __init__(self, registry: Subscriptions, principal: str, may: Callable[[Change], bool]) -> None:
        self.principal = principal
        self.ended: End | None = None
        self._registry = registry
        self._may = may
        self._topics: dict[Change, tuple[Topic, ...]] = {}
        self._changes: dict[Topic, tuple[Change, ...]] = {}
        self._pending: dict[Change, None] = {}
        self._waiting: asyncio.Future[None] | None = None

    @property
    def changes(self) -> tuple[Change, ...]:
        """All that it follows."""
        return tuple(self._topics)

    def may_be_told_by(self, may: Callable[[Change], bool]) -> None:
        """Ask this one from now on."""
        self._may = may

    def follows(self, change: Change) -> bool:
        """Whether it is subscribed to that."""
        return change in self._topics

    def mark(self, topic: Topic) -> None:
        """The thing has changed."""
        for change in self._changes.get(topic, ()):
            self._pending.setdefault(change)
        self.wake()

    def wake(self) -> None:
        """Let `wait` return."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def take(self) -> list[Change]:
        """What it has to be told now, in the order of first change. What it may no more hear of is let go for good."""
        if not self._pending:
            return []
        taken, self._pending = self._pending, {}
        told = []
        for change in taken:
            if self._may(change):
                told.append(change)
            else:
                self._registry.unsubscribe(self, change)
        return told

    def put_back(self, changes: Iterable[Change]) -> None:
        """These were taken, and could not be told: they come again, first."""
        again = dict.fromkeys(change for change in changes if change in self._topics)
        self._pending = again | self._pending
        if again:
            self.wake()

    async def wait(self, timeout: float) -> None:
        """Return when there may be something to take, at the end, or after `timeout` seconds. For one task at a time:
        another one has to be woken first.
        """
        if self._pending or self.ended:
            return
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        timer = asyncio.get_running_loop().call_later(timeout, self.wake)
        try:
            await waiting
        finally:
            timer.cancel()
            if self._waiting is waiting:
                self._waiting = None

    def end(self, why: End) -> None:
        """There is nothing more to come; what is pending can still be taken."""
        if self.ended is None:
            self.ended = why
            self._registry.forget(self)
        self.wake()

    @property
    def topics(self) -> tuple[Topic, ...]:
        """For the registry: all of which something is followed."""
        return tuple(self._changes)

    def add(self, change: Change, topics: tuple[Topic, ...]) -> None:
        """For the registry."""
        self._topics[change] = topics
        for topic in topics:
            self._changes[topic] = (*self._changes.get(topic, ()), change)

    def remove(self, change: Change) -> list[Topic]:
        """For the registry: the topics of which nothing is followed any more."""
        self._pending.pop(change, None)
        gone = []
        for topic in self._topics.pop(change):
            left = tuple(other for other in self._changes[topic] if other != change)
            if left:
                self._changes[topic] = left
            else:
                del self._changes[topic]
                gone.append(topic)
        return gone


class Subscriptions:
    """All subscribers, by topic and by principal.

    Args:
        log: which changes there are; it is followed.
        most: resources that one principal may be subscribed to at a time, and subscribers that it may have.
        most_subscribers: of all principals together.
    """

    def __init__(self, log: EventLog, *, most: int, most_subscribers: int = MOST_SUBSCRIBERS) -> None:
        self._log = log
        self._most = most
        self._most_subscribers = most_subscribers
        self._by_topic: dict[Topic, dict[Subscriber, None]] = {}
        self._by_principal: dict[str, dict[Subscriber, None]] = {}
        self._count = 0
        self._resources: Counter[str] = Counter()
        self._draining = False
        self._observers: list[Callable[[Topic, bool], None]] = []
        log.follow(self)

    @property
    def subscribers(self) -> int:
        """How many there are."""
        return self._count

    @property
    def resources(self) -> int:
        """How many resources are subscribed to, each counted once for each of its subscribers."""
        return self._resources.total()

    def observe(self, observer: Callable[[Topic, bool], None]) -> None:
        """Call this with True when somebody begins to follow a topic, and with False when nobody does any more."""
        self._observers.append(observer)

    def subscriber(self, principal: str, may: Callable[[Change], bool]) -> Subscriber:
        """A new one, which follows nothing yet.

        Raises:
            TooManySubscriptionsError: the principal has as many as it may have, or all have.
        """
        mine = self._by_principal.get(principal, {})
        if len(mine) >= self._most:
            raise TooManySubscriptionsError(
                f"this principal has {len(mine)} sessions and streams open: close some, or raise"
                " gateway.limits.subscriptions"
            )
        if self._count >= self._most_subscribers:
            raise TooManySubscriptionsError(
                f"there are {self._count} sessions and streams open: try again later"
            )
        new = Subscriber(self, principal, may)
        self._by_principal.setdefault(principal, {})[new] = None
        self._count += 1
        if self._draining:
            new.end("drained")
        return new

    def subscribe(self, subscriber: Subscriber, change: Change, *topics: Topic) -> None:
        """Tell it of that from now on; at once, if it has changed since the principal last read it.

        Args:
            topics: of which each changes when that does, all different.

        Raises:
            TooManySubscriptionsError: the principal is subscribed to as many resources as it may be.
        """
        if subscriber.ended:
            return
        if not subscriber.follows(change):
            if change.kind == "resource":
                self._count_resource(subscriber.principal)
            subscriber.add(change, topics)
            for topic in topics:
                followers = self._by_topic.setdefault(topic, {})
                if subscriber not in followers:
                    followers[subscriber] = None
                    if len(followers) == 1:
                        self._tell_observers(topic, True)
        for topic in topics:
            if self._log.changed_since_read(subscriber.principal, topic):
                subscriber.mark(topic)

    def unsubscribe(self, subscriber: Subscriber, change: Change) -> None:
        """Tell it of that no more, not even of what has changed already."""
        if subscriber.ended or not subscriber.follows(change):
            return
        if change.kind == "resource":
            self._uncount_resources(subscriber.principal, 1)
        for topic in subscriber.remove(change):
            self._let_go(topic, subscriber)

    def changed(self, topic: Topic) -> None:
        """All who follow it have to be told."""
        for subscriber in self._by_topic.get(topic, ()):
            subscriber.mark(topic)

    def revoke(self, principal: str) -> None:
        """The principal may nothing any more: all that it follows ends."""
        for subscriber in tuple(self._by_principal.get(principal, ())):
            subscriber.end("revoked")

    def drain(self) -> None:
        """End every subscriber, new ones as well: the process ends."""
        self._draining = True
        for mine in tuple(self._by_principal.values()):
            for subscriber in tuple(mine):
                subscriber.end("drained")

    def forget(self, subscriber: Subscriber) -> None:
        """It has ended. Called by itself."""
        mine = self._by_principal.get(subscriber.principal, {})
        if subscriber not in mine:
            return
        del mine[subscriber]
        if not mine:
            del self._by_principal[subscriber.principal]
        self._count -= 1
        changes = subscriber.changes
        self._uncount_resources(subscriber.principal, sum(it.kind == "resource" for it in changes))
        for topic in subscriber.topics:
            self._let_go(topic, subscriber)

    def _let_go(self, topic: Topic, subscriber: Subscriber) -> None:
        followers = self._by_topic[topic]
        followers.pop(subscriber, None)
        if not followers:
            del self._by_topic[topic]
            self._tell_observers(topic, False)

    def _tell_observers(self, topic: Topic, is_followed: bool) -> None:
        for observer in self._observers:
            observer(topic, is_followed)

    def _count_resource(self, principal: str) -> None:
        if self._resources[principal] >= self._most:
            raise TooManySubscriptionsError(
                f"this principal is subscribed to {self._most} resources: unsubscribe from some, or raise"
                " gateway.limits.subscriptions"
            )
        self._resources[principal] += 1

    def _uncount_resources(self, principal: str, count: int) -> None:
        self._resources[principal] -= count
        if self._resources[principal] <= 0:
            del self._resources[principal]
