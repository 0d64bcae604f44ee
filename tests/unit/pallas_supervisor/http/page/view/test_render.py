"""The whole page, from figures that a worker may serve."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from pallas_supervisor.http.page.data.facts import AgentFacts, DeploymentFacts, GatewayFacts
from pallas_supervisor.http.page.data.history import Count, History, together
from pallas_supervisor.http.page.data.samples import Totals, read_samples
from pallas_supervisor.http.page.view.render import view
from pallas_supervisor.http.page.view.servers import MAX_SERVERS, servers
from pallas_supervisor.http.page.view.tables import MAX_IDLE_LISTED, MAX_MODELS, models_table
from pallas_supervisor.lifecycle.states import State


def test_figures_that_are_none_are_passed_over_and_endless_names_end() -> None:
    calls = CounterMetricFamily("pallas_send_message", "", labels=["agent", "outcome"])
    tokens = CounterMetricFamily("pallas_llm_tokens", "", labels=["agent", "model", "kind"])
    running = GaugeMetricFamily("pallas_calls_running", "", labels=["agent"])
    up = GaugeMetricFamily("pallas_downstream_up", "", labels=["agent", "server"])
    for value in (math.nan, math.inf, -math.inf, 2.0):
        calls.add_metric(["a", "ok"], value)
        tokens.add_metric(["a", "m", "input"], value)
        running.add_metric(["a"], value)
    for number in range(5000):
        tokens.add_metric(["a", f"<model {number}>", "input"], 1)
        up.add_metric(["a", f"<server {number}>"], 1)
    found = read_samples([calls, tokens, running, up])
    assert (found.agents["a"].calls, found.agents["a"].running) == (2, 2)
    assert found.models["m"].tokens["input"] == 2
    assert str(models_table(found)).count('class="title">&lt;model') == MAX_MODELS
    fleet = DeploymentFacts(name="x", health="ok", agents=(), trend=together(()), samples=found)
    assert str(servers(fleet)).count("MCP server</span>") == MAX_SERVERS
    assert f"and 4\u202f{1000 - MAX_SERVERS} more" in str(servers(fleet))
    shown = view(fleet, "")
    assert f"and 4\u202f{1001 - MAX_MODELS} more" in shown
    assert len(shown) < 300_000


def resting(count: int, *, needs: tuple[str, ...] = ()) -> DeploymentFacts:
    """One agent that serves, and so many idle ones."""
    trend = History(0.0).trend("a", Count(), 0.0)
    agents = [
        AgentFacts(
            name=f"agent-{number:04}",
            title=f"Agent {number}",
            url=None if number else "http://localhost:24201/mcp",
            serves="what its resource declares",
            model="openai.gpt-5",
            project="platform",
            needs=needs if number else (),
            state=State.IDLE if number else State.READY,
            wanted=True,
            available=True,
            since=datetime(2026, 3, 12, tzinfo=UTC),
            health="ok",
            why="",
            restarts=0,
            memory=None,
            totals=Totals(),
            trend=trend,
            stretches=(),
        )
        for number in range(count + 1)
    ]
    return DeploymentFacts(
        name="x", health="ok", agents=tuple(agents), trend=together(()), samples=read_samples([])
    )


def test_a_few_idle_agents_have_rows_of_their_own() -> None:
    shown = view(resting(3), "")
    assert "All 4 agents ready, 3 of these idle" in shown
    assert shown.count('data-state="idle"') == 3
    assert "project platform" in shown
    assert "<details" not in shown


def test_many_idle_agents_are_folded_and_bounded() -> None:
    facts = resting(1000, needs=("agent-0000",))
    shown = view(facts, "")
    assert 'data-state="idle"' not in shown
    assert "1\u202f000 agents more, which the next call starts" in shown
    assert shown.count("<li id=") == MAX_IDLE_LISTED
    assert f"and {1000 - MAX_IDLE_LISTED} more: pallasctl status --state idle" in shown
    assert "1\u202f001 agents need others or are needed" in shown
    assert len(shown) < 100_000


def test_the_gateway_is_shown_above_the_agents() -> None:
    down = GatewayFacts("backoff", "error", "https://agents.example", "exit status 70; <restarting> in 2 s")
    shown = view(replace(resting(0), gateway=down), "")
    assert "https://agents.example/mcp" in shown
    assert "&lt;restarting&gt;" in shown
    assert shown.index('id="gateway"') < shown.index('id="agents"')
    assert "word is-backoff" in shown
    assert 'id="gateway"' not in view(resting(0), "")
