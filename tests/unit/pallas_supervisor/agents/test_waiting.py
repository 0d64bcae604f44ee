"""Who waits in the backlog and who gets a 503: agents whose dependencies come up, and all of them at the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pallas_supervisor.lifecycle.events import Stop
from pallas_supervisor.lifecycle.states import Exit
from support.ports import free_ports
from support.supervisor.rig import Rig, rig

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

NAMES = ("library", "research", "jarvis")


def on_rig(directory: Path, do: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        agents: dict[str, dict[str, Any]] = {
            name: {"port": port, "depends_on": list(NAMES[:place][-1:])}
            for place, (name, port) in enumerate(zip(NAMES, free_ports(3), strict=True))
        }
        async with rig(directory, agents, outliving=[agents["research"]["port"]]) as made:
            await do(made)

    asyncio.run(run())


def answered(rig: Rig) -> set[str]:
    """The agents for which the supervisor answers."""
    return rig.manager.responders.answering


def test_connections_wait_while_all_that_an_agent_needs_is_on_its_way(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        assert answered(rig) == set(NAMES)
        rig.operations.start(["jarvis"])
        assert rig.states() == {"library": "starting", "research": "waiting", "jarvis": "waiting"}
        assert answered(rig) == set()
        rig.appear("library")
        rig.end("library", Exit(status=78))  # it will not come: there is something to be said
        assert answered(rig) == set(NAMES)
        rig.operations.start(["library"])
        assert answered(rig) == set()
        for name in NAMES:
            rig.come_up(name)
        assert answered(rig) == set()

    on_rig(tmp_path, do)


def test_at_the_end_connections_wait_for_the_next_supervisor_where_there_will_be_one(tmp_path: Path) -> None:
    async def do(rig: Rig) -> None:
        for name in NAMES:
            rig.operations.start([name])
            rig.come_up(name)
        rig.manager.responders.retire()
        for name in reversed(NAMES):
            rig.manager.engine.post(name, Stop())
            rig.end(name)
        assert answered(rig) == {"library", "jarvis"}

    on_rig(tmp_path, do)
