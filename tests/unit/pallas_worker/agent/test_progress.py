"""Progress of a call: strictly increasing, the agreed messages, and harmless when it cannot be sent."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from fast_agent.mcp.tool_execution_handler import ToolExecutionHandler

from pallas_worker.agent.progress import MAX_RELAYED, Progress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    type Sent = list[tuple[float, float | None, str | None]]


def collect(act: Callable[[Progress], Awaitable[object]]) -> Sent:
    """What is sent while `act` runs."""
    sent: Sent = []

    async def send(progress: float, total: float | None, message: str | None) -> None:
        await asyncio.sleep(0)  # lets tasks overtake each other, if they can
        sent.append((progress, total, message))

    async def run() -> None:
        await act(Progress(send))

    asyncio.run(run())
    return sent


def test_it_is_what_fast_agent_expects() -> None:
    async def send(progress: float, total: float | None, message: str | None) -> None: ...

    assert isinstance(Progress(send), ToolExecutionHandler)


def test_a_loop_with_a_tool_call() -> None:
    async def act(progress: Progress) -> None:
        loop = await progress.on_tool_start("agent_loop", "harper", None)
        await progress.on_tool_progress(loop, 1, None, "step 1 (llm)")
        tool = await progress.on_tool_start("search_web", "argos", {"q": "x"}, "tu_1")
        assert tool == "tu_1"
        await progress.on_tool_progress(tool, 50, 100, "half way")
        await progress.on_tool_progress(tool, 51, 100, "research step 2 (tool)")
        await progress.on_tool_complete(tool, True, None, None)
        await progress.on_tool_progress(loop, 2, None, "step 2 (tool argos__search_web)")
        await progress.on_tool_complete(loop, True, None, None)
        await progress.close()

    assert collect(act) == [
        (0, None, "harper step 1 (llm)"),
        (1, None, "argos/search_web: started"),
        (2, None, None),
        (3, None, "research step 2 (tool)"),
        (4, 4, "argos/search_web: completed"),
        (5, None, "harper step 2 (tool)"),
    ]


def test_steps_name_no_tools_and_count_none() -> None:
    async def act(progress: Progress) -> None:
        loop = await progress.on_tool_start("agent_loop", "harper", None)
        child = await progress.on_tool_start("research", "agent", None, "tu_1")
        for label in ("llm", "tool", "tool argos__search_web", "tools x3", "waiting"):
            await progress.on_tool_progress(loop, 1, None, f"step 2 ({label})")
            await progress.on_tool_progress(child, 1, None, f"research step 2 ({label})")
        await progress.on_tool_progress(child, 1, None, "step 3 (llm)")

    messages_for = [message for _, _, message in collect(act)][1:]
    kinds = ("llm", "tool", "tool", "tool")
    steps = [f"{agent} step 2 ({kind})" for kind in kinds for agent in ("harper", "research")]
    assert messages_for == [*steps, None, None, None]


def test_a_tool_that_fails_says_nothing_of_its_error() -> None:
    async def act(progress: Progress) -> None:
        await progress.on_tool_complete(
            await progress.on_tool_start("a", "s", None), False, None, "secret detail"
        )

    assert collect(act)[-1] == (1, 1, "s/a: failed")


def test_a_tool_that_is_announced_twice_begins_once() -> None:
    async def act(progress: Progress) -> None:
        await progress.ensure_tool_call_exists("tu", "a", "s")
        assert await progress.get_tool_call_id_for_tool_use("tu") == "tu"
        await progress.on_tool_start("a", "s", None, "tu")
        await progress.on_tool_complete("tu", True, None, None)
        assert await progress.get_tool_call_id_for_tool_use("tu") is None

    assert [message for _, _, message in collect(act)] == ["s/a: started", "s/a: completed"]


def test_what_an_agent_behind_a_server_tells_of_its_tools_ends_as_they_do() -> None:
    async def act(progress: Progress) -> None:
        tool = await progress.on_tool_start("harper", "research", None, "tu_1")
        for message in ("argos/search: started", "argos/search: completed", "argos/fetch: failed"):
            await progress.on_tool_progress(tool, 1, 1, message)
        await progress.on_tool_progress(tool, 1, 1, f"argos/{'x' * MAX_RELAYED}: completed")

    assert collect(act) == [
        (0, None, "research/harper: started"),
        (1, None, "argos/search: started"),
        (2, 2, "argos/search: completed"),
        (3, 3, "argos/fetch: failed"),
        (4, None, None),
    ]


def test_what_is_still_open_at_the_end_has_failed() -> None:
    async def act(progress: Progress) -> None:
        await progress.on_tool_start("agent_loop", "harper", None)
        await progress.on_tool_start("a", "s", None)
        await progress.close()

    assert [message for _, _, message in collect(act)] == ["s/a: started", "s/a: failed"]


def test_a_refused_tool_has_failed() -> None:
    async def act(progress: Progress) -> None:
        await progress.on_tool_permission_denied("a", "s", None)

    assert collect(act) == [(1, 1, "s/a: failed")]


def test_tools_side_by_side_never_go_back() -> None:
    async def tool(progress: Progress, number: int) -> None:
        call = await progress.on_tool_start(f"t{number}", "s", None)
        await progress.on_tool_progress(call, 9, 9, None)
        await progress.on_tool_complete(call, number % 2 == 0, None, None)

    async def act(progress: Progress) -> None:
        await asyncio.gather(*(tool(progress, number) for number in range(20)))

    sent = collect(act)
    assert len(sent) == 60
    assert all(one[0] < two[0] for one, two in itertools.pairwise(sent))
    assert all(total in (None, progress) for progress, total, _ in sent)


def test_a_client_that_is_gone_is_not_tried_again() -> None:
    tries = 0

    async def send(progress: float, total: float | None, message: str | None) -> None:
        nonlocal tries
        tries += 1
        raise ConnectionResetError

    async def run() -> None:
        progress = Progress(send)
        for _ in range(3):
            await progress.on_tool_start("a", "s", None)

    asyncio.run(run())
    assert tries == 1
