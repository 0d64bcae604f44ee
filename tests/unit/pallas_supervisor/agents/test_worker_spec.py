"""What a worker is told, from a deployment: nothing of the agent's entry gets lost on the way."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from pallas_common.logs.levels import Levels
from pallas_common.protocol.spec import WorkerSpec
from pallas_registry.deployment.model import Agent, Deployment, ModelSettings
from pallas_supervisor.agents.worker_spec import worker_spec


def spec(**fields: int) -> WorkerSpec:
    agent = Agent(name="a", module="m", port=9000, title="A", description="An agent", **fields)
    deployment = Deployment(
        name="demo", agents={"a": agent}, namespace="local.demo", bind="127.0.0.1", path=Path("agents.yaml")
    )
    return worker_spec(
        deployment,
        ModelSettings(),
        name="a",
        generation=3,
        environ={"HOME": "/home/x", "NOTIFY_SOCKET": "/run/s"},
        directory="/srv",
        metrics=("/run/m", "a1"),
        levels=Levels("INFO", "INFO"),
    )


def test_the_bounds_of_an_agent_reach_its_worker() -> None:
    told = spec(max_concurrency=3, max_queue=0, max_request_bytes=4096)
    assert (told.max_concurrency, told.max_queue, told.max_request_bytes) == (3, 0, 4096)
    told = spec(liveness_interval=2, memory_limit=2**30, slow_after=0.5)
    assert (told.liveness_interval, told.memory_limit, told.slow_after) == (2, 2**30, 0.5)
    assert WorkerSpec.from_json(told.to_json()) == told


def test_both_sides_have_the_same_defaults() -> None:
    defaults = {field.name: field.default for field in fields(Agent)}
    told = spec()
    bounds = ("max_concurrency", "max_queue", "max_request_bytes", "memory_limit")
    for name in (*bounds, "liveness_interval", "slow_after"):
        assert getattr(told, name) == defaults[name]
