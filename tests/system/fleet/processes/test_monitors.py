"""Workers that freeze or outgrow their memory, in a real fleet: noticed, told, replaced, and nobody else is touched."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.clients import call, send_message
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1024**2

TROUBLE = """
import time
from fast_agent import FastAgent

fast = FastAgent("test", parse_cli_args=False)
held = [b"x" * AT_FIRST]


def hold(size: int) -> str:
    held.append(b"x" * size)
    return "held"


async def block(seconds: float) -> str:
    time.sleep(seconds)
    return "blocked"


@fast.agent(name="NAME", model="passthrough", instruction="Repeat.", function_tools=[hold, block])
async def agent() -> None:
    ...
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    defaults = {"memory_limit": "512MiB", "reset_after": 0.05}
    deployment = make_deployment(
        tmp_path_factory.mktemp("monitors") / "fleet", "trouble", "heavy", "other", defaults=defaults
    )
    # An agent of its own: whoever takes much memory may be silent for as long where memory comes slowly.
    deployment.add("frozen", liveness_interval=0.4, liveness_misses=5)
    for name, size in (("trouble", 0), ("heavy", 340 * MIB), ("frozen", 0)):
        module = TROUBLE.replace("NAME", name).replace("AT_FIRST", str(size))
        (deployment.directory / "agents" / f"{name}.py").write_text(module)
    with Fleet(deployment) as fleet:
        fleet.wait()
        yield fleet


@pytest.fixture(autouse=True)
def nobody_else_is_touched(fleet: Fleet) -> Iterator[None]:
    before = fleet.pids()["other"]
    yield
    assert fleet.pids()["other"] == before
    for name in ("trouble", "frozen"):
        assert asyncio.run(send_message(fleet.deployment.url(name), "still there")) == "still there"


def restarts(fleet: Fleet, reason: str, agent: str = "trouble") -> float:
    text = httpx.get(f"{fleet.deployment.registry}/metrics").text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "pallas_worker_restarts_total"
        and sample.labels["agent"] == agent
        and sample.labels["reason"] == reason
    )


def tool(fleet: Fleet, name: str, arguments: str, agent: str = "trouble") -> str | None:
    """The last text of the agent's answer to a call of one of its tools; None if the connection breaks."""
    try:
        message = f"***CALL_TOOL {name} {arguments}"
        texts = asyncio.run(call(fleet.deployment.url(agent), "send_message", message=message))[1]
        return texts.rpartition("\n")[2]
    except Exception:  # noqa: BLE001 - the client's, of many kinds
        return None


@pytest.mark.parametrize("how", ["stopped", "blocked"])
def test_a_frozen_worker_is_killed_and_started_again(fleet: Fleet, how: str) -> None:
    before = restarts(fleet, "unhealthy", "frozen")
    with fleet.follow() as log:
        if how == "stopped":
            os.kill(fleet.agent("frozen")["pid"], signal.SIGSTOP)
        else:
            assert tool(fleet, "block", '{"seconds": 60}', agent="frozen") is None
        killed = log.until(lambda r: r.get("agent") == "frozen" and r.get("state") == "killing")
        log.until(lambda r: r.get("agent") == "frozen" and r.get("state") == "ready")
    assert killed["message"] == "frozen: ready -> killing (no heartbeat for 2 s)"
    assert restarts(fleet, "unhealthy", "frozen") == before + 1


def test_a_worker_that_has_grown_is_replaced_by_one_that_is_ready_first(fleet: Fleet) -> None:
    before = fleet.agent("trouble")
    with fleet.follow() as log:
        assert tool(fleet, "hold", f'{{"size": {320 * MIB}}}') == "held"
        told = log.until(lambda r: r.get("agent") == "trouble" and "memory_limit" in r)
        log.until(lambda r: r.get("agent") == "trouble" and r.get("replacement") == "gone")
    assert told["memory"] > 0.8 * 512 * MIB
    assert "more than 80 % of its memory_limit, 512 MiB: it is being replaced" in told["message"]
    after = fleet.agent("trouble")
    assert after["pid"] != before["pid"]
    assert after["restarts"] == before["restarts"] + 1
    assert restarts(fleet, "memory") == 1


def test_an_allocation_that_is_too_large_ends_the_worker_where_it_is_made(fleet: Fleet) -> None:
    with fleet.follow() as log:
        assert tool(fleet, "hold", f'{{"size": {2048 * MIB}}}') is None
        told = log.until(lambda r: r.get("logger") == "pallas.worker.memory")
        log.until(lambda r: r.get("agent") == "trouble" and r.get("state") == "ready")
    assert "out of memory: it asked for more than its memory_limit of 512 MiB leaves" in told["message"]
    assert "held.append" in told["stack"]
    assert fleet.agent("trouble")["last_exit"] == "exit status 71 (out of memory)"
    assert restarts(fleet, "oom") == 1
    messages = [r["message"] for r in fleet.transitions("trouble") if r["state"] == "backoff"]
    assert "out of memory: it asked for more" in messages[-1]


def test_a_worker_that_is_large_from_the_start_is_told_of_and_killed_only_past_its_limit(
    fleet: Fleet,
) -> None:
    before = fleet.agent("heavy")
    with fleet.follow() as log:

        def told_of() -> list[str]:
            return [
                r["message"] for r in fleet.records() if r.get("agent") == "heavy" and "memory_limit" in r
            ]

        if not told_of():
            log.until(lambda r: r.get("agent") == "heavy" and "memory_limit" in r)
    told = told_of()
    assert len(told) == 1, "once for a worker"
    assert "from the start, more than 80 % of its memory_limit, 512 MiB: raise the limit" in told[0]
    assert before["restarts"] == 0
    with fleet.follow() as log:
        tool(fleet, "hold", f'{{"size": {120 * MIB}}}', agent="heavy")
        killed = log.until(lambda r: r.get("agent") == "heavy" and "memory_limit" in r)
        log.until(lambda r: r.get("agent") == "heavy" and r.get("state") == "ready")
    assert killed["message"].endswith("and may take 512 MiB: killed")
    assert fleet.agent("heavy")["last_exit"] == "killed by SIGKILL (out of memory)"
    assert restarts(fleet, "oom", "heavy") == 1


def test_who_keeps_below_the_limit_is_left_alone(fleet: Fleet) -> None:
    before = fleet.pids()
    assert tool(fleet, "hold", f'{{"size": {100 * MIB}}}') == "held"
    assert tool(fleet, "block", '{"seconds": 0.5}', agent="frozen") == "blocked"
    assert fleet.pids() == before
