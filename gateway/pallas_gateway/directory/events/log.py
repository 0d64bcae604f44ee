"""What changed and when, by number: so that nothing is missed between a read and the subscription after it.

Knows topics and principals' ids, not what a topic stands for. Both tables are bounded; what is forgotten is taken for
changed, because an update too many costs one read and one too few a stale view.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pallas_gateway.directory.events.topics import Topic

MOST_TOPICS = 100_000
"""Topics whose last change is remembered."""
MOST_READS = 100_000
"""Reads that are remembered."""


class Follower(Protocol):
    """One who is told of every change."""

    def changed(self, topic: Topic) -> None:
        """The thing has changed. Does not block and does not raise."""


class EventLog:
    """The number of each topic's last change, and at which number each principal last read it."""

    def __init__(self, *, most_topics: int = MOST_TOPICS, most_reads: int = MOST_READS) -> None:
        self._most_topics = most_topics
        self._most_reads = most_reads
        self._sequence = 0
        self._versions: OrderedDict[Topic, int] = OrderedDict()
        self._reads: OrderedDict[tuple[str, Topic], int] = OrderedDict()
        self._forgotten_version = 0
        self._has_forgotten_reads = False
        self._followers: list[Follower] = []

    @property
    def sequence(self) -> int:
        """How many changes there have been. Taken before a read begins, it says what the read has seen for certain."""
        return self._sequence

    def follow(self, follower: Follower) -> None:
        """Tell it of every change from now on."""
        self._followers.append(follower)

    def publish(self, *topics: Topic) -> None:
        """These have changed, in this order."""
        for topic in topics:
            self._sequence += 1
            self._versions[topic] = self._sequence
            self._versions.move_to_end(topic)
            if len(self._versions) > self._most_topics:
                _, self._forgotten_version = self._versions.popitem(last=False)
            for follower in self._followers:
                follower.changed(topic)

    def version(self, topic: Topic) -> int:
        """The number of its last change, or one that is not before it; 0 if it never changed."""
        return self._versions.get(topic, self._forgotten_version)

    def was_read(self, principal: str, topic: Topic, sequence: int) -> None:
        """The principal has read it as it was at `sequence` or later."""
        key = (principal, topic)
        self._reads[key] = max(sequence, self._reads.get(key, 0))
        self._reads.move_to_end(key)
        if len(self._reads) > self._most_reads:
            self._reads.popitem(last=False)
            self._has_forgotten_reads = True

    def changed_since_read(self, principal: str, topic: Topic) -> bool:
        """Whether it has changed since the principal last read it; not if the principal has never read it."""
        read = self._reads.get((principal, topic))
        if read is None:
            return self._has_forgotten_reads and self.version(topic) > 0
        return self.version(topic) > read
