"""The whole page, from figures that a worker may serve."""

from __future__ import annotations

import math

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from pallas_supervisor.http.page.data.facts import DeploymentFacts
from pallas_supervisor.http.page.data.history import (
    together,
)
from pallas_supervisor.http.page.data.samples import read_samples
from pallas_supervisor.http.page.view.render import view
from pallas_supervisor.http.page.view.servers import MAX_SERVERS, servers
from pallas_supervisor.http.page.view.tables import MAX_MODELS, models_table


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
