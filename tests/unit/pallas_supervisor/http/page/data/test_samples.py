"""What is read from the series of the workers."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from pallas_supervisor.http.page.data.samples import read_samples


def test_series_are_sorted_out_by_agent_model_and_server() -> None:
    calls = CounterMetricFamily("pallas_send_message", "", labels=["agent", "outcome"])
    calls.add_metric(["a", "ok"], 4)
    calls.add_metric(["a", "error"], 1)
    tokens = CounterMetricFamily("pallas_llm_tokens", "", labels=["agent", "model", "kind"])
    for agent in ("a", "b"):
        tokens.add_metric([agent, "gpt", "input"], 100)
    for kind, number in (
        ("cache_read", 40),
        ("cache_write", 2),
        ("cache_hit", 7),
        ("output", 5),
        ("reasoning", 3),
    ):
        tokens.add_metric(["b", "gpt", kind], number)
    up = GaugeMetricFamily("pallas_downstream_up", "", labels=["agent", "server"])
    up.add_metric(["a", "files"], 0)
    up.add_metric(["b", "files"], 1)
    other = GaugeMetricFamily("pallas_something_new", "", value=1)
    found = read_samples([calls, tokens, up, other])
    assert (found.agents["a"].calls, found.agents["a"].errors) == (5, 1)
    assert (found.agents["a"].tokens_in, found.models["gpt"].tokens["input"]) == (100, 200)
    assert (found.agents["b"].tokens_in, found.agents["b"].tokens_out) == (142, 5), "no token is there twice"
    assert found.downstreams == {"files": {"a": False, "b": True}}
