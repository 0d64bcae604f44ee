"""Metrics of a real fleet: exact over kills, replacements and reloads, whatever workers or files are like."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import signal
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from support.clients import send_message
from support.data.exposition import parse_openmetrics
from support.data.metrics_page import ROWS
from support.fleet.deployment import make_deployment
from support.fleet.fleet import PATIENCE, Fleet
from support.fleet.promtool import promtool

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENMETRICS = {"accept": "application/openmetrics-text; version=1.0.0"}
PLAIN = {"accept-encoding": "identity"}

type Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("metrics") / "fleet", "one", "two", "leaves")
    with Fleet(deployment) as running:
        running.wait()
        yield running


def samples(page: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse_text(page)
        for sample in family.samples
    }


def scrape(url: str) -> Samples:
    answer = httpx.get(url, headers=PLAIN, timeout=PATIENCE)
    answer.raise_for_status()
    return samples(answer.text)


def merged(fleet: Fleet) -> Samples:
    return scrape(f"{fleet.deployment.registry}/metrics")


def calls(found: Samples, agent: str) -> float:
    return found["pallas_send_message_total", frozenset({("agent", agent), ("outcome", "ok")})]


def use(fleet: Fleet, agent: str, times: int) -> int:
    for _ in range(times):
        asyncio.run(send_message(fleet.deployment.url(agent), "count me"))
    return times


class Watch:
    """Scrapes again and again, and remembers each counter that went back."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.scrapes = 0
        self.sunk: list[str] = []
        self._last: Samples = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.03):
            try:
                found = scrape(self.url)
            except httpx.HTTPError:
                continue  # nobody answers at an agent's port while its worker starts anew
            self.scrapes += 1
            for of, value in found.items():
                if of[0].endswith(("_total", "_count", "_bucket")) and value < self._last.get(of, 0.0):
                    self.sunk.append(f"{of}: {self._last[of]} -> {value}")
            self._last |= found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@contextmanager
def watched(fleet: Fleet, agent: str) -> Iterator[None]:
    """Neither on the registry port nor on the agent's own does a counter of the workers go back."""
    own = Watch(fleet.deployment.url(agent).replace("/mcp", "/metrics"))
    with Watch(f"{fleet.deployment.registry}/metrics") as all_, own:
        yield
    assert all_.scrapes > 0
    assert own.scrapes > 0
    assert all_.sunk == own.sunk == []


def test_what_is_counted_is_exact_over_kills_and_replacements(fleet: Fleet) -> None:
    own = fleet.deployment.url("one").replace("/mcp", "/metrics")
    begun = calls(merged(fleet), "one")
    counted = 0
    with watched(fleet, "one"):
        counted += use(fleet, "one", 3)
        fleet.kill("one")
        counted += use(fleet, "one", 2)
        for options in ((), (), ("--now",)):
            assert fleet.ctl("restart", *options, "one").returncode == 0
            counted += use(fleet, "one", 2)
            assert calls(merged(fleet), "one") - begun == counted
            assert calls(scrape(own), "one") - begun == counted
    directory = fleet.runtime / "metrics"
    slots = {path.name.rpartition("_")[2] for path in directory.glob("counter_*")}
    assert len(slots) == 4, (
        "one for each agent, and a second one where an old worker drained beside a new one"
    )


def test_a_reload_loses_no_count_and_leaves_nothing_of_an_agent_that_goes(fleet: Fleet) -> None:
    use(fleet, "leaves", 1)
    before = merged(fleet)
    assert calls(before, "leaves") == 1
    files = len(list((fleet.runtime / "metrics").iterdir()))
    kept = fleet.deployment.agents.pop("leaves")
    fleet.deployment.write()
    assert fleet.ctl("reload").returncode == 0
    after = merged(fleet)
    assert not [of for of in after if ("agent", "leaves") in of[1]]
    assert calls(after, "two") == calls(before, "two")
    assert len(list((fleet.runtime / "metrics").iterdir())) < files
    fleet.deployment.agents["leaves"] = kept
    fleet.deployment.write()
    assert fleet.ctl("reload").returncode == 0
    fleet.wait()
    assert calls(merged(fleet), "leaves") == 0


def test_an_agents_port_tells_of_itself_what_the_registry_port_tells(fleet: Fleet) -> None:
    own = scrape(fleet.deployment.url("one").replace("/mcp", "/metrics"))
    all_ = merged(fleet)
    for name in ("pallas_agent_info", "pallas_agent_health_status"):
        found = {of: value for of, value in own.items() if of[0] == name}
        assert len(found) == 1
        assert found.items() <= all_.items()


def test_a_worker_that_is_stuck_neither_holds_up_a_scrape_nor_is_missing_in_it(fleet: Fleet) -> None:
    counted = use(fleet, "two", 1) + calls(merged(fleet), "two") - 1
    pid = fleet.agent("two")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        found = merged(fleet)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert calls(found, "two") == counted
    assert found["pallas_worker_resident_memory_bytes", frozenset({("agent", "two")})] > 2**20


def test_torn_and_foreign_files_break_no_scrape_and_are_told_once(fleet: Fleet) -> None:
    directory = fleet.runtime / "metrics"
    slot = next(directory.glob("counter_*.db")).name.removeprefix("counter_")
    foreign: dict[str, bytes] = {
        f"summary_{slot}": b"",
        f"gauge_sum_{slot}": b"\xff" * 65536,
        f"gauge_min_{slot}": b"\x40\0\0\0",
        "counter_31415.db": b"\0" * 65536,
        "notes.txt": b"remember the milk",
    }
    before = merged(fleet)
    for name, content in foreign.items():
        (directory / name).write_bytes(content)
    (directory / f"gauge_max_{slot}").mkdir()
    for _ in range(3):
        assert {of for of in before if of[0].startswith("pallas_send")} <= merged(fleet).keys()
    for name in (*foreign, f"gauge_max_{slot}"):
        told = [r for r in fleet.records() if r["logger"].endswith("metrics") and name in r["message"]]
        assert [record["level"] for record in told] == ["WARNING"], name


def test_every_format_says_the_same_and_nothing_that_is_not_described(fleet: Fleet) -> None:
    url = f"{fleet.deployment.registry}/metrics"
    use(fleet, "one", 1)
    text = httpx.get(url, headers=PLAIN)
    openmetrics = httpx.get(url, headers=OPENMETRICS | PLAIN)
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")

    def described(families: Any) -> dict[str, tuple[str, frozenset[str], str]]:
        return {
            family.name + ("_total" if family.type == "counter" else ""): (
                family.type,
                frozenset(label for sample in family.samples for label in sample.labels) - {"le"},
                family.documentation,
            )
            for family in families
        }

    served = described(parse_text(text.text))
    assert described(parse_openmetrics(openmetrics.text)) == served
    assert served.items() <= ROWS.items()
    assert promtool("check", "metrics", given=text.text) == ""
    with httpx.stream("GET", url, headers={"accept-encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        packed = b"".join(answer.iter_raw())
    assert samples(gzip.decompress(packed).decode()).keys() == samples(text.text).keys()
    own = httpx.get(fleet.deployment.url("one").replace("/mcp", "/metrics"), headers=OPENMETRICS)
    assert "gzip" in own.headers["content-encoding"]
    assert described(parse_openmetrics(own.text)).items() <= ROWS.items()


@pytest.mark.parametrize("whole", [False, True])
def test_what_was_counted_outlives_files_that_somebody_removes(fleet: Fleet, whole: bool) -> None:
    directory = fleet.runtime / "metrics"
    counted = use(fleet, "two", 2) - 2 + calls(merged(fleet), "two")

    def is_made_again() -> bool:
        slots = {path.name for path in directory.glob("*.lock")}
        return len(slots) >= 3 and len(list(directory.glob("counter_*.db"))) >= 3

    with watched(fleet, "two"):
        if whole:
            shutil.rmtree(directory)
        else:
            for path in filter(Path.is_file, list(directory.iterdir())):
                path.unlink()
        assert calls(merged(fleet), "two") == counted
        fleet.await_that(is_made_again, "the workers' files")
        counted += use(fleet, "two", 2)
        assert calls(merged(fleet), "two") == counted
        fleet.kill("two")
        counted += use(fleet, "two", 1)
        assert calls(merged(fleet), "two") == counted
    said = [record["message"] for record in fleet.records() if "was removed" in record["message"]]
    assert any("counter_" in message for message in said)


def test_a_cleaner_of_temporary_files_leaves_a_running_deployment_alone(tmp_path: Path) -> None:
    """tmpfiles.d(5): a directory with a lock is skipped, and everything below it."""
    if shutil.which("systemd-tmpfiles") is None:
        message = "not run: needs systemd-tmpfiles"
        if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
            pytest.fail(message)
        pytest.skip(message)
    with Fleet(make_deployment(tmp_path / "fleet", "one")) as fleet:
        fleet.wait()
        parent = fleet.runtime.parent
        (beside := parent / "beside").mkdir()
        (tmp_path / "rules.conf").write_text(f"d {parent} - - - 0\n")
        before = set(fleet.runtime.rglob("*"))
        subprocess.run(["systemd-tmpfiles", "--clean", tmp_path / "rules.conf"], check=True)
        assert not beside.exists()
        assert set(fleet.runtime.rglob("*")) == before
        assert calls(merged(fleet), "one") == 0
