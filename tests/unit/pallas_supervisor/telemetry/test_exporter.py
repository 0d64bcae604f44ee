"""The supervisor's own series and the whole answer to a scrape, without processes of agents."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pallas_common.metrics.exposition import OPENMETRICS, TEXT, Family, choose
from pallas_supervisor.lifecycle.states import State
from pallas_supervisor.telemetry import loop_lag
from pallas_supervisor.telemetry.exporter import Metrics
from pallas_supervisor.telemetry.process_metrics import WorkerProcess, _Spent
from support.supervisor.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


BEGUN = (1_790_000_000.5, 1_790_000_007.25)
"""When two workers were started; their processes may be older."""


def worker(pid: int, begun: float = BEGUN[0]) -> WorkerProcess:
    return WorkerProcess("research", pid, begun)


def samples(metrics: Metrics, accept: str = "") -> dict[str, float]:
    body, type_ = metrics.render(accept)
    parse = parse_openmetrics if type_ == OPENMETRICS else parse_text
    return {
        sample.name
        + "".join(f" {label}={value}" for label, value in sorted(sample.labels.items())): sample.value
        for family in parse(body.decode())
        for sample in family.samples
    }


def test_both_formats_say_the_same() -> None:
    facts = Facts()
    facts.add("research")
    lines = b'pallas_llm_turns_total{agent="research",model="gpt-5"} 3.0\n'
    metrics = Metrics(
        facts, lambda: [Family("pallas_llm_turns", "counter", 'With a "quote" and a \\.', lines)]
    )
    metrics.agents.count_restart("research", "crash")
    metrics.agents.observe_start("research", 0.3)
    text, openmetrics = samples(metrics), samples(metrics, "application/openmetrics-text; version=1.0.0")
    assert text.keys() == openmetrics.keys()
    assert text["pallas_llm_turns_total agent=research model=gpt-5"] == 3
    assert text["pallas_worker_restarts_total agent=research reason=crash"] == 1
    assert text["pallas_worker_restarts_total agent=research reason=oom"] == 0
    assert text["pallas_worker_state agent=research state=ready"] == 1
    assert text["pallas_agent_health_status agent=research"] == 0.5
    assert not any(name.endswith("_created") for name in text)


COUNT_AGAIN = """
from pallas_supervisor.telemetry.exporter import Metrics
from support.supervisor.facts import Facts
facts = Facts()
facts.add("research")
metrics = Metrics(facts, list)
for _ in range(2):
    metrics.agents.count_restart("research", "crash")
    print(metrics.render("")[0].decode().partition('agent="research",reason="crash"} ')[2].split()[0])
    metrics.forget("research")
"""


def test_a_directory_for_the_metrics_of_other_programs_is_left_alone(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    counted = subprocess.run(
        [sys.executable, "-c", COUNT_AGAIN], env=environment, check=True, capture_output=True, text=True
    )
    assert counted.stdout.split() == ["1.0", "1.0"]
    assert not list(tmp_path.iterdir())


def test_what_has_changed_since_the_last_scrape_is_in_the_next_one() -> None:
    facts = Facts()
    facts.add("research")
    metrics = Metrics(facts, list)
    starts = "pallas_worker_start_seconds_bucket agent=research le="
    for number, seconds in enumerate((0.05, 0.3, 61.0), start=1):
        metrics.agents.count_restart("research", "crash")
        metrics.agents.observe_start("research", seconds)
        found = samples(metrics)
        assert found["pallas_worker_restarts_total agent=research reason=crash"] == number
        assert found["pallas_worker_start_seconds_count agent=research"] == found[f"{starts}+Inf"] == number
    assert [found[f"{starts}{bound}"] for bound in ("0.05", "0.25", "0.5", "60.0")] == [1, 1, 2, 2]
    assert found["pallas_worker_start_seconds_sum agent=research"] == pytest.approx(61.35)
    facts.add("research", State.BACKOFF)
    found = samples(metrics)
    assert found["pallas_worker_state agent=research state=ready"] == 0
    assert found["pallas_worker_state agent=research state=backoff"] == 1


def test_one_that_is_added_again_begins_anew() -> None:
    facts = Facts()
    facts.add("research")
    metrics = Metrics(facts, list)
    metrics.agents.count_restart("research", "oom")
    assert samples(metrics)["pallas_worker_restarts_total agent=research reason=oom"] == 1
    metrics.forget("research")
    metrics.agents.count_restart("research", "crash")
    found = samples(metrics)
    assert found["pallas_worker_restarts_total agent=research reason=crash"] == 1
    assert "pallas_worker_restarts_total agent=research reason=oom" not in found


def test_of_an_idle_agent_only_that_is_said_which_says_something() -> None:
    facts = Facts()
    facts.add("research", State.STARTING)
    facts.processes = [worker(os.getpid())]
    metrics = Metrics(facts, list)
    metrics.agents.observe_start("research", 0.1)
    metrics.agents.count_restart("research", "crash")
    running = {name: value for name, value in samples(metrics).items() if "agent=research" in name}
    facts.processes = []
    facts.add("research", State.IDLE)
    facts.health["research"] = "ok"
    del facts.memory["research"]
    idle = {name: value for name, value in samples(metrics).items() if "agent=research" in name}
    assert idle == {
        "pallas_agent_info agent=research port=24201": 1,
        "pallas_agent_health_status agent=research": 1,
        "pallas_worker_state agent=research state=idle": 1,
        "pallas_worker_restarts_total agent=research reason=crash": 1,
    }
    facts.add("research", State.READY)
    facts.processes = [worker(os.getpid())]
    again = {name: value for name, value in samples(metrics).items() if "agent=research" in name}
    assert again.keys() >= running.keys()
    assert again["pallas_worker_start_seconds_count agent=research"] == 1
    assert again["pallas_worker_state agent=research state=idle"] == 0


def test_an_agent_without_a_port_has_an_empty_one() -> None:
    facts = Facts()
    facts.add("research")
    facts.ports["research"] = None
    assert samples(Metrics(facts, list))["pallas_agent_info agent=research port="] == 1


def test_a_workers_metric_of_a_name_that_is_taken_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics(Facts(), lambda: [Family("pallas_up", "gauge", "", b"pallas_up 7.0\n")])
    for _ in range(2):
        assert samples(metrics)["pallas_up"] == 1
    assert len(caplog.records) == 1


def test_nothing_of_a_removed_agent_is_left() -> None:
    facts = Facts()
    for name in ("research", "jarvis"):
        facts.add(name)
    facts.processes = [worker(os.getpid())]
    metrics = Metrics(facts, list)
    for name in ("research", "jarvis"):
        metrics.agents.count_restart(name, "crash")
        metrics.agents.observe_start(name, 1)
    assert any("research" in name for name in samples(metrics))
    del facts.agents["research"], facts.ports["research"], facts.call_bounds["research"]
    facts.processes = []
    metrics.forget("research")
    left = samples(metrics)
    assert not any("research" in name for name in left)
    assert any("jarvis" in name for name in left)


BUSY = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\nsys.stdin.read()"


def busy() -> subprocess.Popen[bytes]:
    """A process that has spent 0.3 s of CPU time and waits."""
    process = subprocess.Popen([sys.executable, "-ISc", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_cpu_time_never_sinks_when_one_worker_takes_over_from_another() -> None:
    facts = Facts()
    facts.add("research")
    metrics = Metrics(facts, list)
    cpu = "pallas_worker_cpu_seconds_total agent=research"
    with busy() as old, busy() as new:
        facts.processes = [worker(old.pid)]
        alone = samples(metrics)
        facts.processes = [worker(old.pid), worker(new.pid, BEGUN[1])]
        both = samples(metrics)
        facts.processes = [worker(new.pid, BEGUN[1])]
        after = samples(metrics)
        facts.processes = []
        gone = samples(metrics)
        old.kill()
        new.kill()
    assert 0.2 <= alone[cpu] <= both[cpu] - 0.2
    assert both[cpu] <= after[cpu] <= gone[cpu] + 0.01
    memory = "pallas_worker_resident_memory_bytes agent=research"
    assert both[memory] > 1.5 * alone[memory] > 1.5 * 2**20
    assert both["pallas_worker_open_fds agent=research"] >= 6
    started = "pallas_worker_start_time_seconds agent=research"
    assert (alone[started], both[started], after[started]) == (BEGUN[0], BEGUN[1], BEGUN[1])
    assert memory not in gone


def test_a_process_that_is_gone_is_left_out() -> None:
    facts = Facts()
    facts.add("research")
    with busy() as process:
        process.kill()
    facts.processes = [worker(process.pid)]
    facts.zygote_pid = process.pid
    found = samples(Metrics(facts, list))
    assert not any(name.startswith(("pallas_worker_resident", "pallas_zygote")) for name in found)


def test_the_zygote_is_a_process_of_its_own() -> None:
    facts = Facts(zygote_pid=os.getpid())
    found = samples(Metrics(facts, list))
    for what in ("resident_memory_bytes", "cpu_seconds_total", "open_fds", "start_time_seconds"):
        assert found[f"pallas_zygote_{what}"] > 0


def test_lost_lines_are_told_by_agent_and_reason() -> None:
    facts = Facts()
    facts.add("research")
    facts.lost_lines = {("", "disk"): 7, ("research", "flood"): 3, ("of old", "flood"): 1}
    found = samples(Metrics(facts, list))
    assert found["pallas_log_lines_lost_total agent= reason=disk"] == 7
    assert found["pallas_log_lines_lost_total agent=research reason=flood"] == 3
    assert not any("of old" in name for name in found)


def test_what_holds_the_loop_up_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_lag, "INTERVAL", 0.001)
    seen: list[float] = []

    async def hold_up() -> None:
        looked = asyncio.Event()

        def observe(seconds: float) -> None:
            seen.append(seconds)
            looked.set()

        lag = loop_lag.LoopLag(observe)
        lag.start()
        time.sleep(0.2)  # noqa: ASYNC251 - what holds the loop up
        await asyncio.wait_for(looked.wait(), 30)
        lag.stop()
        count = len(seen)
        await asyncio.sleep(0.05)
        assert len(seen) == count

    asyncio.run(hold_up())
    assert seen[0] > 0.15


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text;version=2.0.0", TEXT),
        ("application/openmetrics-text;version=nonsense", TEXT),
        ("application/openmetrics-text;version=1.0.0;q=0", TEXT),
        ("application/openmetrics-text;version=1.0.0;q=0.2,text/plain;version=0.0.4;q=0.9", TEXT),
        # Prometheus 2 and 3, as they ask:
        (
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
            ),
            OPENMETRICS,
        ),
        (
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
                "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
                "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
            ),
            OPENMETRICS,
        ),
    ],
)
def test_the_format_is_chosen_by_the_accept_header(accept: str, chosen: str) -> None:
    assert choose(accept) == chosen


def test_values_are_written_as_every_parser_reads_them() -> None:
    values: Iterable[float] = (0.0, 1e16, 123456789.25, float("inf"), float("-inf"))
    facts = Facts()
    metrics = Metrics(facts, list)
    for value in values:
        facts.lost_lines = {("", "disk"): value}  # type: ignore[dict-item]  # all kinds of figures are written alike
        assert samples(metrics)["pallas_log_lines_lost_total agent= reason=disk"] == value


def test_processor_time_never_goes_back_by_the_order_of_a_sum() -> None:
    spent = _Spent(0.0, {})
    assert spent.add({1: 0.1, 2: 0.2, 3: 0.3}) == 0.6
    assert spent.add({2: 0.2, 3: 0.3}) == 0.6
    assert spent.add({3: 0.3}) == 0.6
    assert spent.add({}) == 0.6
