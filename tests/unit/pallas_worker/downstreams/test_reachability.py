"""What is believed of a downstream server, and what ends that."""

from __future__ import annotations

import time

import pytest

from pallas_worker.downstreams.reachability import REMEMBER_FOR, Reachability

KINDS = ("discover", "tools", "prompts")


@pytest.fixture
def known() -> Reachability:
    """Two servers of the same version have told everything."""
    known = Reachability()
    for server in ("one", "other"):
        known.introduce(server, ("2026-07-28",))
        for kind in KINDS:
            known.remember(kind, server, kind.encode())
    return known


def believed(known: Reachability, server: str) -> list[str]:
    return [kind for kind in KINDS if known.remembered(kind, server) == kind.encode()]


def test_it_is_believed_for_a_while(known: Reachability, monkeypatch: pytest.MonkeyPatch) -> None:
    assert believed(known, "one") == list(KINDS)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + REMEMBER_FOR)
    assert believed(known, "one") == []


def test_one_that_fails_is_asked_again_what_it_is(known: Reachability) -> None:
    known.doubt("one")
    known.doubt("one")
    assert believed(known, "one") == ["tools", "prompts"]
    assert believed(known, "other") == list(KINDS)
    assert known.losses == 0, "what is connected to it may still be used"


def test_one_that_is_lost_is_asked_everything_again(known: Reachability) -> None:
    known.lose("one")
    assert believed(known, "one") == []
    assert believed(known, "other") == list(KINDS)
    assert known.losses == 1


def test_one_that_is_another_now_is_lost(known: Reachability) -> None:
    known.introduce("one", ("2026-07-28",))
    assert known.losses == 0
    known.introduce("one", ())
    assert known.losses == 1
    assert believed(known, "one") == []
    known.introduce("one", ())
    assert known.losses == 1


def test_each_outage_is_told_once_by_whoever_watches_the_server(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    told: list[tuple[str, str | None]] = []
    known = Reachability(watched=frozenset({"watched"}), listener=lambda *what: told.append(what))
    for server in ("watched", "unwatched"):
        known.attached(server)
        assert known.unattached(server, "cannot connect")
        assert not known.unattached(server, "HTTP 503")
        assert known.down == {server: "HTTP 503"}
        assert known.watched_down == ({server: "HTTP 503"} if server == "watched" else {})
        known.attached(server)
        known.attached(server)
        assert known.down == {}
    assert told == [("watched", "cannot connect"), ("watched", "HTTP 503"), ("watched", None)]
    told_here = [r.getMessage() for r in caplog.records if r.name == "pallas.worker.reachability"]
    assert told_here == ["cannot attach unwatched: cannot connect", "unwatched can be attached again"]
