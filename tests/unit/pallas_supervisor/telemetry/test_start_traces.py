"""Spans of starts: which there are, how they are nested, and how each way of ending one shows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pallas_common.protocol.reports import FailedReport, ReadyReport, StageReport
from pallas_supervisor.lifecycle.states import Agent, Policy, State
from pallas_supervisor.telemetry.start_traces import StartTraces

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from pallas_common.protocol.reports import Stage
    from pallas_common.tracing.provider import Tracing

STAGES: tuple[Stage, ...] = ("importing", "creating", "serving")
READY = ReadyReport(model=None, capabilities=None)


class World:
    """Two agents, of which one start is followed."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        tracing = SimpleNamespace(tracer=provider.get_tracer("tests"))
        self.traces = StartTraces(cast("Tracing", tracing))
        policy = cast("Policy", None)
        self.agents = {name: Agent(name=name, policy=policy) for name in ("one", "two")}

    def enter(self, name: str, state: State, **changes: Any) -> None:
        self.agents[name] = replace(self.agents[name], state=state, **changes)
        self.traces.follow(self.agents[name])
        self.traces.settle(self.agents)

    @property
    def ended(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.ended]

    def named(self, name: str) -> ReadableSpan:
        (span,) = (span for span in self.ended if span.name == name)
        return span


def test_a_start_has_its_stages_and_the_supervisors_ends_once_all_have_settled() -> None:
    world = World()
    world.enter("one", State.STARTING, generation=1)
    world.enter("two", State.WAITING)
    world.traces.begin("one", 1)
    for stage in STAGES:
        world.traces.report("one", 1, StageReport(stage=stage))
    world.traces.report("one", 1, READY)
    assert world.names == ["fork", "import", "create", "serve"]
    world.enter("one", State.READY)
    assert world.names[4:] == ["ready", "agent.start"]
    world.enter("two", State.FAILED)
    assert world.names[6:] == ["supervisor.start"]
    start, whole = world.named("agent.start"), world.named("supervisor.start")
    assert start.parent == whole.context
    assert [span.parent for span in world.ended[:5]] == [start.context] * 5
    assert dict(start.attributes or {}) == {"pallas.agent": "one", "pallas.generation": 1}
    assert dict(whole.attributes or {}) == {"pallas.agents": 2, "pallas.agents.ready": 1}
    assert start.status.is_unset


@pytest.mark.parametrize("way", ["said", "died", "stopped", "again"])
def test_a_start_that_fails_says_so(way: str) -> None:
    world = World()
    world.enter("one", State.STARTING, generation=1)
    world.traces.begin("one", 1)
    world.traces.report("one", 1, StageReport(stage="importing"))
    if way == "said":
        world.traces.report("one", 1, FailedReport(message="no module", permanent=True))
        world.enter("one", State.KILLING)
        expected = "no module"
    elif way == "died":
        world.enter("one", State.BACKOFF)
        expected = "backoff"
    elif way == "stopped":
        world.enter("one", State.STOPPING)
        expected = "stopping"
    else:
        world.traces.begin("one", 1)
        expected = "started again"
    assert world.names == ["fork", "import", "agent.start"]
    start = world.named("agent.start")
    assert not start.status.is_ok
    assert not start.status.is_unset
    assert (start.attributes or {})["pallas.failure"] == expected


def test_starts_after_the_supervisors_are_traces_of_their_own_and_none_is_mistaken_for_another() -> None:
    world = World()
    world.enter("two", State.FAILED)
    world.enter("one", State.READY, generation=1)
    assert world.names == ["supervisor.start"]
    world.traces.begin("one", 2)
    world.traces.report("one", 1, READY)
    assert world.names == ["supervisor.start"]
    world.enter("one", State.READY, generation=2)
    assert world.names[1:] == ["fork", "agent.start"]
    assert world.named("agent.start").parent is None


def test_where_tracing_is_off_nothing_is_kept() -> None:
    traces = StartTraces()
    agents = {"one": Agent(name="one", policy=cast("Policy", None), state=State.READY)}
    traces.begin("one", 1)
    traces.report("one", 1, READY)
    traces.follow(agents["one"])
    traces.settle(agents)
    traces.close(agents)
    assert not traces._starts
