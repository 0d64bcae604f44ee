"""What lies in `deploy/` fits what Pallas serves: its series exist, and the rules pass their own tests."""

from __future__ import annotations

import itertools
import json
import re

import pytest
import yaml

from support.data.deploy_files import DASHBOARD, RULES, panels, queries, rules
from support.fleet.promtool import promtool
from support.repository import ROOT

METRICS = (ROOT / "docs/metrics.md").read_text()

SERIES = re.compile(r"\b((?:pallas|process)_[a-z_]+)\b")
KNOWN = set(re.findall(r"^\| `(\w+)` \|", METRICS, re.MULTILINE))
OF_HISTOGRAMS = {
    f"{name}_{part}"
    for name in re.findall(r"^\| `(\w+)` \| histogram", METRICS, re.MULTILINE)
    for part in ("bucket", "sum", "count")
}


@pytest.mark.parametrize("where", ["rules", "dashboard"])
def test_only_series_that_exist_are_used(where: str) -> None:
    expressions = [rule["expr"] for rule in rules()] if where == "rules" else queries()
    used = {name for expression in expressions for name in SERIES.findall(expression)}
    assert len(used) > 8
    assert used <= KNOWN | OF_HISTOGRAMS


def test_prometheus_finds_no_fault_with_the_rules_and_their_tests_pass() -> None:
    assert "SUCCESS: 19 rules found" in promtool("check", "rules", str(RULES))
    said = promtool("test", "rules", str(RULES.with_suffix(".test.yml")))
    assert "SUCCESS" in said, said
    assert "FAILED" not in said


def test_every_alert_has_a_test_and_its_line_in_the_readme() -> None:
    tests = yaml.safe_load(RULES.with_suffix(".test.yml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    readme = (ROOT / "deploy/README.md").read_text()
    for rule in rules():
        assert rule["alert"] in fired
        assert f"| `{rule['alert']}` |" in readme


def test_prometheus_finds_no_fault_with_its_configuration() -> None:
    assert "SUCCESS" in promtool("check", "config", str(RULES.with_name("prometheus.yml")))


def test_no_two_panels_share_an_id_or_a_place() -> None:
    every = panels()
    assert len({panel["id"] for panel in every}) == len(every)
    for one, other in itertools.combinations([panel["gridPos"] for panel in every], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def test_every_variable_that_a_query_uses_is_there() -> None:
    listed = {variable["name"] for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]}
    used = {name for query in queries() for name in re.findall(r"\$(\w+)", query)}
    assert used - {"__rate_interval", "__range"} <= listed
