"""Each call is told and counted at its beginning and its end, once, whatever happens in between."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from mcp_types import CallToolResult, ImageContent, TextContent

from pallas_worker.fastagent.tools.rules import Patterns, PendingCall
from pallas_worker.fastagent.tools.running import LONGEST_TEXT, Counts, RunningCall, told_text
from pallas_worker.interface.turn import ToolCalled, ToolReturned

if TYPE_CHECKING:
    from pallas_worker.interface.turn import TurnEvent


def text(*texts: str, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=one) for one in texts], is_error=is_error)


class Followed:
    """A call that has begun, and what was told of it."""

    def __init__(self, server: str | None = "tools") -> None:
        self.told: list[TurnEvent] = []
        self.counts = Counts()
        call = PendingCall(
            agent="demo",
            id="1",
            server=server,
            tool="tools__echo",
            arguments={"text": "x"},
            available=(),
            hold=Patterns(()),
            can_wait=False,
        )
        self.call = RunningCall(call, self.told.append, self.counts)

    def ended(self, *, ok: bool, said: str) -> list[TurnEvent]:
        """What should have been told."""
        server = self.call.call.server
        return [
            ToolCalled("demo", "1", server, "tools__echo", {"text": "x"}),
            ToolReturned("demo", "1", server, "tools__echo", ok, said),
        ]


@pytest.mark.parametrize("is_error", [False, True])
def test_a_call_is_told_once_however_deep_it_is_followed(is_error: bool) -> None:
    followed = Followed()
    result = text("x", is_error=is_error)

    async def act() -> CallToolResult:
        return result

    async def outer() -> CallToolResult:
        return await followed.call.run(act)

    assert asyncio.run(followed.call.run(outer)) is result
    followed.call.end(None)
    assert followed.told == followed.ended(ok=not is_error, said="x")
    assert followed.counts == {("tools", "error" if is_error else "ok"): 1}


def test_a_call_that_breaks_off_has_failed() -> None:
    followed = Followed()

    async def act() -> CallToolResult:
        raise asyncio.CancelledError

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await followed.call.run(act)

    asyncio.run(run())
    assert followed.told == followed.ended(ok=False, said="")
    assert followed.counts == {("tools", "error"): 1}


def test_a_refused_call_of_no_server_is_counted_as_such() -> None:
    followed = Followed(server=None)
    followed.call.end(text("no", is_error=True), "refused")
    assert followed.told == followed.ended(ok=False, said="no")
    assert followed.counts == {("own", "refused"): 1}


def test_of_a_long_result_the_beginning_is_told() -> None:
    assert told_text(None) == ""
    image = ImageContent(type="image", data="", mime_type="image/png")
    assert told_text(CallToolResult(content=[image, *text("a", "b").content])) == "a\nb"
    whole = "x" * LONGEST_TEXT
    assert told_text(text(whole)) == whole
    for long in (text(whole + "x"), text(whole, "y"), text(*"xy" * LONGEST_TEXT)):
        assert len(told_text(long)) == LONGEST_TEXT
        assert told_text(long).endswith("…")
