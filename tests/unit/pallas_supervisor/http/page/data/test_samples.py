"""What is read from the series of the workers."""

from __future__ import annotations

import math

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from pallas_supervisor.http.page.data.samples import quantile, read_samples


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


@pytest.mark.parametrize(
    ("buckets", "share", "seconds"),
    [
        ({}, 0.5, None),
        ({0.5: 0.0, math.inf: 0.0}, 0.5, None),
        ({1.0: 10.0, math.inf: 10.0}, 0.5, 0.5),
        ({1.0: 5.0, 3.0: 10.0, math.inf: 10.0}, 0.75, 2.0),
        ({1.0: 0.0, 3.0: 10.0, math.inf: 10.0}, 0.5, 2.0),
        ({1.0: 1.0, math.inf: 10.0}, 0.95, 1.0),
    ],
)
def test_a_quantile_is_within_its_bucket(
    buckets: dict[float, float], share: float, seconds: float | None
) -> None:
    assert quantile(buckets, share) == seconds


def test_durations_are_read_from_the_buckets() -> None:
    seconds = HistogramMetricFamily("pallas_send_message_duration_seconds", "", labels=["agent"])
    seconds.add_metric(["a"], buckets=[("0.5", 3), ("+Inf", 4)], sum_value=9)
    assert read_samples([seconds]).agents["a"].durations == {0.5: 3, math.inf: 4}
