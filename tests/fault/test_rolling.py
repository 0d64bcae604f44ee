"""Restarts under load: a rolling one loses nothing, a SIGKILL only what the killed worker held."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.load.load import Load

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = 50
REUSE = 0.8
"""Seconds for which clients keep a connection in which they send nothing; see `Load`."""
NAMES = ("library", "research", "jarvis")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("fleet"))
    deployment.add("library")
    deployment.add("research", depends_on=("library",))
    deployment.add("jarvis", depends_on=("research",))
    with Fleet(deployment) as running:
        running.wait()
        yield running


def test_a_rolling_restart_under_load_loses_no_request(fleet: Fleet) -> None:
    async def run() -> None:
        ports = [fleet.deployment.agents[name]["port"] for name in NAMES]
        load = Load(ports, clients=CLIENTS, reuse=REUSE)
        loading = asyncio.create_task(load.run(100_000))
        await load.until(200)
        before = fleet.pids()
        restarted = await asyncio.to_thread(fleet.ctl, "restart", "--all", "--timeout", "170")
        assert restarted.returncode == 0, restarted.stderr
        await load.until(load.outcome.total + 200)
        load.stop()
        outcome = await loading
        assert outcome.failed == []
        assert len(outcome.answered) == len(NAMES)
        after = fleet.pids()
        assert all(before[name] != after[name] for name in NAMES)

    asyncio.run(run())
    took_over = [r["agent"] for r in fleet.transitions() if (r["previous"], r["state"]) == ("ready", "ready")]
    assert took_over == list(NAMES)


def test_sigkill_under_load_fails_only_what_the_worker_held(fleet: Fleet) -> None:
    async def run() -> None:
        load = Load([fleet.deployment.agents["research"]["port"]], clients=CLIENTS)
        loading = asyncio.create_task(load.run(100_000))
        await load.until(100)
        os.kill(fleet.agent("research")["pid"], signal.SIGKILL)
        await load.until(load.outcome.total + 200)
        load.stop()
        outcome = await loading
        assert outcome.refused == []
        assert outcome.wrong == []
        assert 0 < len(outcome.lost) <= CLIENTS, "one request on each connection at most was under way"

    asyncio.run(run())
