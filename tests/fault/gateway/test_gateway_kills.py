"""The gateway killed under load: no connection is refused, and nothing that was acknowledged is lost."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from fakes.downstream import run_downstream
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import Door, await_gateway, door, make_token, with_gateway
from support.gateway.load import UNLIMITED, Callers, Making, audited, check_made, unended

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 3


def kill(fleet: Fleet) -> None:
    """SIGKILL the gateway's process; returns once another one serves."""
    before = fleet.status()["gateway"]["pid"]
    os.kill(before, signal.SIGKILL)

    def replaced() -> bool:
        gateway = fleet.status()["gateway"]
        return bool(gateway["state"] == "ready" and gateway["pid"] != before)

    fleet.await_that(replaced, "another process of the gateway serves")


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    deployment = make_deployment(tmp_path / "fleet")
    with_gateway(deployment, limits=UNLIMITED, max_failures=1000)
    return Fleet(deployment)


def test_what_was_acknowledged_survives_the_gateway_being_killed(fleet: Fleet) -> None:
    with run_downstream() as tools:
        fleet.deployment.servers = {"tools": {"transport": "http", "url": tools.url}}
        fleet.deployment.add("worker", servers=("tools",))
        with fleet:
            fleet.wait()
            await_gateway(fleet)
            agent = fleet.agent("worker")["pid"]
            token = make_token(fleet, "caller", agent="worker")
            begun = door(fleet, token, "sessions")
            assert begun.names("tools")
            port = fleet.deployment.document["gateway"]["port"]
            callers = Callers(port, token, 3, "tools__echo", {"text": "marco"}, "marco")
            with callers, Making(door(fleet), agents=True) as making:
                for _ in range(KILLS):
                    callers.until_more(20)
                    kill(fleet)
                callers.until_more(20)
            tally = callers.tally
            assert not tally.refused
            assert not tally.wrong
            assert fleet.agent("worker")["pid"] == agent, "agents have nothing to do with it"
            assert begun.ask("tools/list").status == 404, "its session ended with the process"
            assert Door(begun.url, token, "sessions").names("tools")
            check_made(door(fleet), making.made)
            there = door(fleet).rest("GET", "/resources/agent").json()["items"]
            assert making.agents
            assert set(making.agents) <= {each["metadata"]["name"] for each in there}
            assert set(tally.answered) <= audited(fleet.state), "every answered call is in the audit"
            fleet.await_that(lambda: not unended(fleet.state), "every call that has begun has an end")
