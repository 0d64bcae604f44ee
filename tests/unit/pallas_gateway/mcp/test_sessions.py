"""How long sessions are kept, and which goes where there is no room."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pallas_gateway.directory.events.log import EventLog
from pallas_gateway.directory.events.subscriptions import Subscriptions
from pallas_gateway.mcp.sessions import Session, Sessions
from pallas_gateway.mcp.surface import McpError

if TYPE_CHECKING:
    from collections.abc import Callable


class Rig:
    """Sessions with a clock that stands."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0.0
        self.subscriptions = Subscriptions(EventLog(), most=100)
        limits = {"most_each": 3, "most": 5, "idle": 10.0, **settings}
        self.all = Sessions(clock=lambda: self.now, **limits)

    def open(self, owner: str = "me", path: str = "/mcp") -> Session:
        self.all.make_room(owner)
        return self.all.add(owner, path, "2025-11-25", self.subscriptions.subscriber(owner, lambda _: True))

    def has(self, session: Session) -> bool:
        return not session.subscriber.ended


def in_loop(act: Callable[[], None]) -> None:
    async def run() -> None:
        act()

    asyncio.run(run())


def test_a_session_is_found_by_its_owner_at_its_path() -> None:
    def act() -> None:
        rig = Rig()
        session = rig.open()
        assert rig.all.find(session.id, "me", "/mcp") is session
        assert rig.all.find(session.id, "you", "/mcp") is None
        assert rig.all.find(session.id, "me", "/mcp/agents/x") is None
        assert rig.all.find("", "me", "/mcp") is None
        rig.all.end(session)
        rig.all.end(session)
        assert rig.all.find(session.id, "me", "/mcp") is None
        assert (len(rig.all), rig.subscriptions.subscribers) == (0, 0)

    in_loop(act)


def test_what_is_idle_for_too_long_is_forgotten_and_what_is_used_is_not() -> None:
    def act() -> None:
        rig = Rig()
        idle, used, streaming = rig.open(), rig.open(), rig.open()
        outlet = streaming.enter()
        rig.now = 9
        rig.all.find(used.id, "me", "/mcp")
        rig.now = 11
        rig.all.sweep()
        assert (rig.has(idle), rig.has(used), rig.has(streaming)) == (False, True, True)
        streaming.leave(outlet)
        rig.now = 20.5
        rig.all.sweep()
        assert (rig.has(used), rig.has(streaming)) == (False, True), "its time begins when its stream ends"
        rig.now = 22
        rig.all.sweep()
        assert len(rig.all) == 0

    in_loop(act)


def test_the_oldest_idle_one_makes_room_of_the_owner_first_and_then_of_all() -> None:
    def act() -> None:
        rig = Rig()
        busy, old, new = rig.open(), rig.open(), rig.open()
        busy.enter()
        rig.open()
        assert (rig.has(busy), rig.has(old), rig.has(new)) == (True, False, True)
        for _ in range(2):
            rig.open("you")
        assert len(rig.all) == 5
        rig.open("she")
        assert (rig.has(busy), rig.has(new)) == (True, False)
        assert len(rig.all) == 5

    in_loop(act)


def test_nobody_is_let_in_where_none_is_idle() -> None:
    def act() -> None:
        rig = Rig()
        for _ in range(3):
            rig.open().enter()
        with pytest.raises(McpError, match="3 sessions in use") as refused:
            rig.open()
        assert refused.value.status == 429
        rig.open("you")

    in_loop(act)


def test_the_end_of_a_principal_is_the_end_of_its_sessions() -> None:
    def act() -> None:
        rig = Rig()
        mine, yours = [rig.open(), rig.open()], rig.open("you")
        rig.all.revoke("me")
        assert [rig.has(session) for session in [*mine, yours]] == [False, False, True]

    in_loop(act)
