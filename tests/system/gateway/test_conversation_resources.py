"""Conversations as resources of MCP: one's own alone, told of as they change, for people and for agents."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import ERAS, Era, await_gateway, door, make_token, with_gateway
from support.gateway.mcp.subscriber import Subscriber

if TYPE_CHECKING:
    from collections.abc import Iterator

STATE = "resource://agents/echo/ui/state"
SNAPSHOT = "resource://agents/echo/snapshot"
OWN = "resource://agents/caller/ui/state"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("f") / "fleet", "echo")
    deployment.add("caller", depends_on=["echo"])
    limits = {"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000}
    with_gateway(deployment, limits={**limits, "subscriptions_per_minute": 100_000})
    with Fleet(deployment) as running:
        running.wait()
        await_gateway(running)
        yield running


@pytest.mark.parametrize("era", ERAS)
def test_people_hear_of_their_own_and_of_nobody_elses(fleet: Fleet, era: Era) -> None:
    port = fleet.deployment.document["gateway"]["port"]
    tokens = {
        name: make_token(fleet, f"{name} {era}", "view:agents", "run:agents") for name in ("ada", "eve")
    }
    ada, eve = (door(fleet, token) for token in tokens.values())

    def read(uri: str) -> Any:
        return json.loads(ada.read(uri).text)

    async def main() -> None:
        async with (
            Subscriber(port, tokens["ada"], [STATE, SNAPSHOT], era) as mine,
            Subscriber(port, tokens["eve"], [STATE, SNAPSHOT], era) as hers,
        ):
            asked = await asyncio.to_thread(ada.rest, "POST", "/agents/echo/chat", json={"message": "of ada"})
            thread = asked.json()["threadId"]
            for uri in (STATE, SNAPSHOT):
                await mine.until_read(uri, '"completed"' if uri == SNAPSHOT else '"of ada"')
            await asyncio.to_thread(ada.rest, "PATCH", f"/threads/{thread}", json={"title": "renamed"})
            await mine.until_read(STATE, '"renamed"')
            state = await asyncio.to_thread(read, STATE)
            assert [each["content"] for each in state["messages"]] == ["of ada", "of ada"]
            assert state["thread"] == state["threads"][0]
            [run] = (await asyncio.to_thread(read, SNAPSHOT))["runs"]
            assert (run["threadId"], run["turnIndex"], run["state"]) == (thread, 1, "completed")
            assert STATE not in hers.updated, "nor that somebody talks"
            await asyncio.to_thread(eve.rest, "POST", "/agents/echo/threads", json={"title": "of eve"})
            await hers.until_read(STATE, '"of eve"')
            assert "of ada" not in eve.read(STATE).text + eve.read(SNAPSHOT).text
            await asyncio.to_thread(ada.rest, "DELETE", f"/threads/{thread}")
            await mine.until_read(STATE, '"threads": []')

    asyncio.run(main())


def test_an_agent_has_its_own_with_others(fleet: Fleet) -> None:
    port = fleet.deployment.document["gateway"]["port"]
    token = make_token(fleet, "caller's", "run:agents:echo", agent="caller")
    caller = door(fleet, token)

    async def main() -> None:
        async with Subscriber(port, token, [OWN, STATE], "stateless") as subscriber:
            assert subscriber.honoured == [OWN]
            await asyncio.to_thread(caller.tool, "agent-echo__chat", message="from the agent", thread="new")
            await subscriber.until_read(OWN, '"from the agent"')

    asyncio.run(main())
    state = json.loads(caller.read(OWN).text)
    assert (state["agent"], [each["agent"] for each in state["threads"]]) == ("caller", ["echo"])
    human = door(fleet)
    assert json.loads(human.read(OWN).text)["threads"] == [], "not even for who may do everything"
