"""What idle agents have counted: out of the directory, small, and there again with the next process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pallas_common.metrics.exposition import TEXT, page
from pallas_common.metrics.fold import write_reserved
from pallas_common.metrics.mmap_file import encode
from pallas_supervisor.telemetry import parking
from pallas_supervisor.telemetry.store import MetricsStore
from support.worker.record import RECORD_ALL, run

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = b'["calls", "calls_total", {"agent": "research"}, "Calls."]'
DIES = """
import os, signal, sys
os.environ["PROMETHEUS_MULTIPROC_DIR"] = sys.argv[1]
from prometheus_client import values
values.ValueClass = values.MultiProcessValue(process_identifier=lambda: sys.argv[2])
from prometheus_client import Counter, Gauge
Counter("calls", "Calls.", ["agent"]).labels("research").inc(3)
Gauge("servers_up", "Up.", ["agent"], multiprocess_mode="livemostrecent").labels("research").set(1)
Gauge("largest", "Largest.", ["agent"], multiprocess_mode="max").labels("research").set(7)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def store(tmp_path: Path) -> MetricsStore:
    return MetricsStore(tmp_path / "metrics")


def count(store: MetricsStore, generation: int, value: float, kind: str = "counter") -> None:
    """What a worker has counted when it has ended."""
    slot = store.slot("research", generation)
    write_reserved(store.directory / f"{kind}_{slot}.db", encode([(KEY, value, 0.0)]))
    (store.directory / f"{slot}.lock").touch()
    store.process_gone("research", generation)


def scrape(store: MetricsStore) -> set[str]:
    return {
        line
        for line in page(store.families(), TEXT).decode().splitlines()
        if not line.startswith(("#", "pallas_metric_series_left_out"))
    }


def files(folder: Path) -> Iterator[str]:
    return (path.name for path in folder.iterdir())


def test_counts_of_a_killed_worker_are_there_again_when_its_agent_is_woken(store: MetricsStore) -> None:
    for generation, total in enumerate((3, 6, 9), start=1):
        arguments = [str(store.directory), store.slot("research", generation)]
        ended = subprocess.run([sys.executable, "-c", DIES, *arguments], check=False)
        assert ended.returncode == -signal.SIGKILL
        store.process_gone("research", generation)
        expected = {
            f'calls_total{{agent="research"}} {total:.1f}',
            'largest{agent="research"} 7.0',
        }
        assert scrape(store) == expected
        store.idle("research")
        assert scrape(store) == set()
        assert list(files(store.directory)) == []


def test_what_a_worker_counts_takes_no_more_than_a_few_kib_when_it_is_idle(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path / "metrics")
    slot = store.slot("research", 1)
    run(RECORD_ALL.replace('"a0"', repr(slot)), store.directory)
    store.process_gone("research", 1)
    before = scrape(store)
    assert len(before) > 40
    store.idle("research")
    assert scrape(store) == set()
    assert sum(path.stat().st_size for path in store.parked.iterdir()) <= 16 * 1024
    assert store.slot("research", 2) == slot
    assert scrape(store) == before


def test_who_is_still_written_stays(store: MetricsStore) -> None:
    count(store, 1, 2.0)
    store.slot("research", 2)
    store.idle("research")
    assert scrape(store) == {'calls_total{agent="research"} 2.0'}
    hold = "import sys; from pallas_common.metrics.writing.slot_files import SlotLock as L; lock = L(*sys.argv[1:])"
    command = [sys.executable, "-c", f"{hold}; print(); input()", str(store.directory), "a1s0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stray:
        assert stray.stdout is not None
        stray.stdout.readline()
        store.process_gone("research", 2)
        assert scrape(store) == {'calls_total{agent="research"} 2.0'}
        stray.communicate(b"\n")
    assert scrape(store) == set()


def test_who_is_woken_before_anybody_looked_has_its_files_still(store: MetricsStore) -> None:
    count(store, 1, 2.0)
    store.idle("research")
    count(store, 2, 3.0)
    assert scrape(store) == {'calls_total{agent="research"} 3.0'}
    assert list(files(store.parked)) == []


def test_files_that_are_too_large_stay_where_they_are(
    store: MetricsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "MOST", 65535)
    count(store, 1, 2.0)
    store.idle("research")
    assert scrape(store) == {'calls_total{agent="research"} 2.0'}


def test_a_full_disk_delays_counts_and_loses_none(
    store: MetricsStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    count(store, 1, 2.0)
    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", refuse)
        store.idle("research")
        for _ in range(2):
            assert scrape(store) == {'calls_total{agent="research"} 2.0'}
    assert len(caplog.records) == 1
    assert scrape(store) == set()
    with monkeypatch.context() as full:
        full.setattr(parking, "write_reserved", refuse)
        count(store, 2, 3.0)
        store.idle("research")
        assert scrape(store) == {'calls_total{agent="research"} 3.0'}
    assert scrape(store) == set()
    store.slot("research", 3)
    assert scrape(store) == {'calls_total{agent="research"} 5.0'}
    assert list(files(store.parked)) == []


def test_a_damaged_archive_costs_its_agents_counts_alone(
    store: MetricsStore, caplog: pytest.LogCaptureFixture
) -> None:
    count(store, 1, 2.0)
    store.idle("research")
    assert scrape(store) == set()
    (store.parked / "a1.zip").write_bytes(b"PK\3\4 no archive")
    count(store, 2, 3.0)
    assert "is damaged" in caplog.text
    assert scrape(store) == {'calls_total{agent="research"} 3.0'}


def test_nothing_is_left_of_an_idle_agent_that_is_removed(store: MetricsStore) -> None:
    count(store, 1, 2.0)
    store.idle("research")
    assert scrape(store) == set()
    assert list(files(store.parked)) == ["a1.zip"]
    store.remove("research")
    assert list(files(store.parked)) == []
    count(store, 1, 1.0)
    assert scrape(store) == {'calls_total{agent="research"} 1.0'}


def test_an_earlier_life_is_wiped(tmp_path: Path) -> None:
    (tmp_path / "metrics-idle").mkdir()
    (tmp_path / "metrics-idle" / "a1.zip").write_bytes(b"old")
    store = MetricsStore(tmp_path / "metrics")
    store.slot("research", 1)
    assert list(files(store.parked)) == []
