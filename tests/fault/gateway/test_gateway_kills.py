"""The gateway killed under load: no connection is refused, and nothing that was acknowledged is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from typing import TYPE_CHECKING, Self

import httpx
import pytest

from fakes.downstream import run_downstream
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import Door, await_gateway, door, make_token, with_gateway
from support.gateway.load import Callers

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 3
UNLIMITED = {
    "requests_per_minute": 1_000_000,
    "concurrent": 1000,
    "tenant_requests_per_minute": 1_000_000,
    "tenant_concurrent": 1000,
}


def kill(fleet: Fleet) -> None:
    """SIGKILL the gateway's process; returns once another one serves."""
    before = fleet.status()["gateway"]["pid"]
    os.kill(before, signal.SIGKILL)

    def replaced() -> bool:
        gateway = fleet.status()["gateway"]
        return bool(gateway["state"] == "ready" and gateway["pid"] != before)

    fleet.await_that(replaced, "another process of the gateway serves")


class Making:
    """Makes tokens again and again, and notes those that were acknowledged."""

    def __init__(self, caller: Door) -> None:
        self._caller = caller
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.made: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(90)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            wanted = {"name": f"made-{number}", "role": "human", "grants": ["view:agents"]}
            with contextlib.suppress(httpx.TransportError):
                answer = self._caller.rest("POST", "/tokens", json=wanted)
                if answer.status_code in (200, 201):
                    made = answer.json()
                    self.made[made["id"]] = made["token"]


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
            port = fleet.deployment.document["gateway"]["port"]
            callers = Callers(port, token, 3, "tools__echo", {"text": "marco"}, "marco")
            with callers, Making(door(fleet)) as making:
                for _ in range(KILLS):
                    callers.until_more(20)
                    kill(fleet)
                callers.until_more(20)
            tally = callers.tally
            assert not tally.refused
            assert not tally.wrong
            assert fleet.agent("worker")["pid"] == agent, "agents have nothing to do with it"
            known = {row["id"] for row in door(fleet).rest("GET", "/tokens").json()["tokens"]}
            assert making.made
            assert making.made.keys() <= known
            some = list(making.made.values())[-3:]
            assert all(Door(door(fleet).url, each).ask("ping").status != 401 for each in some)
            audited = {json.loads(line).get("request_id") for line in audit_lines(fleet)}
            assert set(tally.answered) <= audited, "every answered call is in the audit"


def audit_lines(fleet: Fleet) -> list[str]:
    """All lines of the audit, those of files that were put aside included; each is whole."""
    files = sorted(fleet.state.glob("audit.jsonl*"))
    return [line for file in files for line in file.read_text().splitlines() if line]
