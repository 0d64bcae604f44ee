"""`docs/metrics.md` has every series that is served, with its type, labels and help, and no other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pallas_common.metrics.served_series import GATEWAY
from pallas_supervisor.telemetry.agent_lines import RESTART_REASONS
from pallas_supervisor.telemetry.exporter import Metrics
from pallas_supervisor.telemetry.process_metrics import WorkerProcess
from pallas_supervisor.telemetry.store import MetricsStore
from support.data.metrics_page import PAGE, ROWS
from support.fleet.promtool import promtool
from support.gateway.record import RECORD_ALL as RECORD_GATEWAY
from support.supervisor.facts import Facts
from support.worker.record import RECORD_ALL, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def worker(directory: Path) -> str:
    """All that a worker serves."""
    return run(RECORD_ALL + "print(m.render(None)[0].decode())", directory)


def supervisor(directory: Path) -> str:
    """All that the supervisor adds."""
    store = MetricsStore(directory / "metrics")
    store.slot("research", 1)
    facts = Facts(zygote_pid=os.getpid())
    facts.add("research")
    facts.processes = [WorkerProcess("research", os.getpid(), 1.0)]
    metrics = Metrics(facts, store.families)
    metrics.agents.observe_start("research", 1.0)
    metrics.gateway.is_up = lambda: True
    metrics.gateway.count_restart("crash")
    return metrics.render("")[0].decode()


def gateway(directory: Path) -> str:
    """What the supervisor serves of what the gateway writes."""
    store = MetricsStore(directory / "metrics")
    slot = store.slot(GATEWAY, 1)
    run(f"SLOT = {slot!r}\n{RECORD_GATEWAY}", directory / "metrics")
    metrics = Metrics(Facts(), store.families)
    return (
        "\n".join(line for line in metrics.render("")[0].decode().splitlines() if "pallas_gateway_" in line)
        + "\n"
    )


def series(page: str) -> dict[str, tuple[str, frozenset[str], str]]:
    return {
        family.name + ("_total" if family.type == "counter" else ""): (
            family.type,
            frozenset(label for sample in family.samples for label in sample.labels) - {"le"},
            family.documentation,
        )
        for family in text_string_to_metric_families(page)
    }


def test_the_page_has_every_series_and_no_other(tmp_path: Path) -> None:
    assert {
        **series(worker(tmp_path)),
        **series(supervisor(tmp_path)),
        **series(gateway(tmp_path / "g")),
    } == ROWS


def test_every_quantity_has_a_unit_in_its_help() -> None:
    for name, (_, _, text) in ROWS.items():
        if name.startswith("pallas_"):
            for unit in ("seconds", "bytes"):
                assert (unit in name) <= (unit in text), name


@pytest.mark.parametrize("name", RESTART_REASONS)
def test_the_page_names_every_reason_of_a_restart(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("page", [worker, supervisor, gateway])
def test_promtool_finds_no_fault(page: Callable[[Path], str], tmp_path: Path) -> None:
    assert promtool("check", "metrics", given=page(tmp_path)) == ""
