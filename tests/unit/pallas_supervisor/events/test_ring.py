"""The ring: bounded in items and in bytes, with numbers that go on whatever is dropped."""

from __future__ import annotations

from pallas_supervisor.events.ring import Ring


def test_it_is_bounded_in_items_and_says_what_had_to_go() -> None:
    ring: Ring[str] = Ring(2, 100, first=1)
    assert (ring.begin, ring.end, list(ring)) == (1, 1, [])
    assert ring.append("a", 1) == ring.append("b", 1) == []
    assert ring.append("c", 1) == ["a"]
    assert (ring.begin, ring.end, len(ring)) == (2, 4, 2)
    assert (ring.at(2), ring.at(3)) == ("b", "c")
    assert (list(ring), list(reversed(ring))) == (["b", "c"], ["c", "b"])


def test_it_is_bounded_in_bytes_and_keeps_the_newest_whatever_its_size() -> None:
    ring: Ring[str] = Ring(10, 5)
    ring.append("a", 3)
    ring.append("b", 2)
    assert ring.append("c", 4) == ["a", "b"]
    assert ring.append("d", 9) == ["c"]
    assert list(ring) == ["d"]


def test_when_it_is_cleared_the_numbers_go_on() -> None:
    ring: Ring[str] = Ring(10, 5)
    ring.append("a", 5)
    ring.clear()
    assert (ring.begin, ring.end, list(ring)) == (1, 1, [])
    ring.append("b", 5)
    assert (ring.at(1), list(ring)) == ("b", ["b"]), "the bytes of what was cleared do not count"
