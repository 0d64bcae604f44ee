"""Slots of the metrics directory: wiped at the start, kept over restarts, merged even while an agent leaves."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from pallas_supervisor.slots import Slots

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

COUNT = """
import os, sys
os.environ["PROMETHEUS_MULTIPROC_DIR"] = sys.argv[1]
from prometheus_client import values
values.ValueClass = values.MultiProcessValue(process_identifier=lambda: sys.argv[2])
from prometheus_client import Counter, Gauge
Counter("pallas_calls", "Calls.", ["agent"]).labels(sys.argv[3]).inc(int(sys.argv[4]))
Gauge("pallas_downstream_up", "Up.", ["agent"], multiprocess_mode="livemostrecent").labels(sys.argv[3]).set(1)
"""


def count(slots: Slots, agent: str, number: int, generation: int = 1) -> None:
    """What a worker of the agent counts, in a process of its own."""
    arguments = [str(slots.directory), slots.slot(agent, generation), agent, str(number)]
    subprocess.run([sys.executable, "-c", COUNT, *arguments], check=True)


def series(slots: Slots) -> set[str]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(slots)
    return {line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")}


def test_a_directory_of_an_earlier_life_is_wiped(tmp_path: Path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "counter_a1.db").write_bytes(b"old")
    slots = Slots(tmp_path / "metrics")
    assert list(slots.directory.iterdir()) == []
    assert series(slots) == set()


def test_slots_are_words_of_letters_and_digits_and_never_used_twice(tmp_path: Path):
    slots = Slots(tmp_path)
    names = ["research", "tech_research", "a-b"]
    given = [slots.slot(name, 1) for name in names]
    assert all(slot.isalnum() for slot in given)
    assert [slots.slot(name, 1) for name in names] == given
    slots.remove("research")
    assert slots.slot("research", 1) not in given


def test_a_generation_gets_a_slot_that_no_live_one_has(tmp_path: Path):
    slots = Slots(tmp_path)
    first = slots.slot("research", 1)
    second = slots.slot("research", 2)  # beside the first, which drains
    third = slots.slot("research", 3)  # both others cannot be killed
    assert len({first, second, third}) == 3
    slots.process_gone("research", 1)
    slots.process_gone("research", 1)
    assert slots.slot("research", 4) == first
    slots.process_gone("research", 4)
    slots.process_gone("jarvis", 1)
    assert slots.slot("research", 5) == first, "no more slots than processes at once"


def test_a_slot_that_an_unknown_process_holds_is_not_given_away(tmp_path: Path):
    slots = Slots(tmp_path)
    first = slots.slot("research", 1)
    hold = "import sys; from pallas_worker.metrics_files import SlotLock as L; lock = L(*sys.argv[1:])"
    command = [sys.executable, "-c", f"{hold}; print(); input()", str(tmp_path), first]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stray:
        assert stray.stdout is not None
        stray.stdout.readline()
        slots.process_gone("research", 1)
        assert slots.slot("research", 2) != first
        stray.communicate(b"\n")
    assert slots.slot("research", 3) == first


def test_counters_outlive_a_process_and_gauges_do_not(tmp_path: Path):
    slots = Slots(tmp_path)
    count(slots, "research", 2)
    count(slots, "jarvis", 5)
    assert 'pallas_downstream_up{agent="research"} 1.0' in series(slots)
    slots.process_gone("research", 1)
    assert series(slots) == {
        'pallas_calls_total{agent="research"} 2.0',
        'pallas_calls_total{agent="jarvis"} 5.0',
        'pallas_downstream_up{agent="jarvis"} 1.0',
    }
    count(slots, "research", 3, generation=2)
    assert 'pallas_calls_total{agent="research"} 5.0' in series(slots)


def test_a_drained_generations_gauges_vanish_and_the_live_ones_stay(tmp_path: Path):
    slots = Slots(tmp_path)
    count(slots, "research", 2, generation=1)
    count(slots, "research", 3, generation=2)
    assert 'pallas_calls_total{agent="research"} 5.0' in series(slots)
    slots.process_gone("research", 1)
    counted = {'pallas_calls_total{agent="research"} 5.0'}
    assert series(slots) == counted | {'pallas_downstream_up{agent="research"} 1.0'}
    slots.process_gone("research", 2)
    assert series(slots) == counted


def test_nothing_is_left_of_a_removed_agent(tmp_path: Path):
    slots = Slots(tmp_path)
    count(slots, "research", 2)
    (slots.directory / f"{slots.slot('research', 1)}.lock").touch()
    slots.remove("research")
    slots.remove("research")
    assert list(slots.directory.iterdir()) == []
    assert series(slots) == set()


def test_a_file_cut_short_is_left_out_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    slots = Slots(tmp_path)
    count(slots, "jarvis", 5)
    slots.slot("research", 1)
    (slots.directory / f"counter_{slots.slot('research', 1)}.db").write_bytes(b"\0")
    for _ in range(3):
        assert 'pallas_calls_total{agent="jarvis"} 5.0' in series(slots)
    assert len(caplog.records) == 1


def test_an_agent_may_leave_during_a_scrape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    slots = Slots(tmp_path)
    count(slots, "research", 2)
    count(slots, "jarvis", 5)
    is_readable = slots._is_readable

    def leave(file: str) -> bool:
        readable = is_readable(file)
        slots.remove("research")
        return readable

    monkeypatch.setattr(slots, "_is_readable", leave)
    assert 'pallas_calls_total{agent="jarvis"} 5.0' in series(slots)
