"""The number of each change, and what a principal has seen of it."""

from __future__ import annotations

from pallas_gateway.directory.events.log import EventLog
from pallas_gateway.directory.events.topics import Topic

ONE, TWO = Topic("one"), Topic("two")


def test_a_change_after_a_read_is_one_that_was_not_seen() -> None:
    log = EventLog()
    assert not log.changed_since_read("me", ONE)
    log.publish(ONE)
    assert not log.changed_since_read("me", ONE), "who has never read it has missed nothing"
    log.was_read("me", ONE, log.sequence)
    assert not log.changed_since_read("me", ONE)
    log.publish(TWO)
    assert not log.changed_since_read("me", ONE)
    log.publish(ONE)
    assert log.changed_since_read("me", ONE)
    assert not log.changed_since_read("you", ONE)


def test_a_change_during_a_read_may_not_have_been_seen() -> None:
    log = EventLog()
    before = log.sequence
    log.publish(ONE)
    log.was_read("me", ONE, before)
    assert log.changed_since_read("me", ONE)


def test_a_slow_read_does_not_undo_a_newer_one() -> None:
    log = EventLog()
    slow = log.sequence
    log.publish(ONE)
    log.was_read("me", ONE, log.sequence)
    log.was_read("me", ONE, slow)
    assert not log.changed_since_read("me", ONE)


def test_what_is_forgotten_counts_as_changed() -> None:
    log = EventLog(most_topics=1, most_reads=1)
    log.was_read("me", ONE, log.sequence)
    log.publish(ONE, TWO)
    assert log.changed_since_read("me", ONE), "its change is forgotten"
    log = EventLog(most_reads=1)
    log.publish(ONE)
    log.was_read("me", ONE, log.sequence)
    log.was_read("me", TWO, log.sequence)
    assert log.changed_since_read("me", ONE), "its read is forgotten"
