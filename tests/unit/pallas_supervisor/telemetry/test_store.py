"""The metrics directory: wiped at the start, its slots kept over restarts, merged even while an agent leaves."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from pallas_common.metrics.exposition import TEXT, page
from pallas_common.metrics.mmap_file import encode
from pallas_common.metrics.reader import MergedFiles
from pallas_supervisor.telemetry.store import LEFT_OUT, MetricsStore

if TYPE_CHECKING:
    from pathlib import Path

COUNT = """
import os, sys
os.environ["PROMETHEUS_MULTIPROC_DIR"] = sys.argv[1]
from prometheus_client import values
values.ValueClass = values.MultiProcessValue(process_identifier=lambda: sys.argv[2])
from prometheus_client import Counter, Gauge
Counter("jobs_done", "Calls.", ["agent"]).labels(sys.argv[3]).inc(int(sys.argv[4]))
Gauge("servers_up", "Up.", ["agent"], multiprocess_mode="livemostrecent").labels(sys.argv[3]).set(1)
"""


def count(store: MetricsStore, agent: str, number: int, generation: int = 1) -> None:
    """What a worker of the agent counts, in a process of its own."""
    arguments = [str(store.directory), store.slot(agent, generation), agent, str(number)]
    subprocess.run([sys.executable, "-c", COUNT, *arguments], check=True)


def series(store: MetricsStore) -> set[str]:
    """The samples of a scrape, which the slower account for other readers has to equal."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(store)
    slow, fast = generate_latest(registry).decode(), page(store.families(), TEXT).decode()
    found = [
        {line for line in text.splitlines() if not line.startswith(("#", LEFT_OUT))} for text in (slow, fast)
    ]
    assert found[0] == found[1]
    return found[1]


def test_a_directory_of_an_earlier_life_is_wiped(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "counter_a1.db").write_bytes(b"old")
    (tmp_path / "metrics" / "counter_a1s0.db" / "inside").mkdir(parents=True)
    store = MetricsStore(tmp_path / "metrics")
    assert list(store.directory.iterdir()) == []
    assert series(store) == set()


def test_slots_are_words_of_letters_and_digits_and_never_used_twice(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path)
    names = ["research", "tech_research", "a-b"]
    given = [store.slot(name, 1) for name in names]
    assert all(slot.isalnum() for slot in given)
    assert [store.slot(name, 1) for name in names] == given
    store.remove("research")
    assert store.slot("research", 1) not in given


def test_a_generation_gets_a_slot_that_no_live_one_has(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path)
    first = store.slot("research", 1)
    second = store.slot("research", 2)  # beside the first, which drains
    third = store.slot("research", 3)  # both others cannot be killed
    assert len({first, second, third}) == 3
    store.process_gone("research", 1)
    store.process_gone("research", 1)
    assert store.slot("research", 4) == first
    store.process_gone("research", 4)
    store.process_gone("jarvis", 1)
    assert store.slot("research", 5) == first, "no more store than processes at once"


def test_a_slot_that_an_unknown_process_holds_is_not_given_away(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path)
    first = store.slot("research", 1)
    hold = "import sys; from pallas_common.metrics.writing.slot_files import SlotLock as L; lock = L(*sys.argv[1:])"
    command = [sys.executable, "-c", f"{hold}; print(); input()", str(tmp_path), first]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stray:
        assert stray.stdout is not None
        stray.stdout.readline()
        store.process_gone("research", 1)
        assert store.slot("research", 2) != first
        stray.communicate(b"\n")
    assert store.slot("research", 3) == first


def test_counters_outlive_a_process_and_gauges_do_not(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path)
    count(store, "research", 2)
    count(store, "jarvis", 5)
    assert 'servers_up{agent="research"} 1.0' in series(store)
    store.process_gone("research", 1)
    assert series(store) == {
        'jobs_done_total{agent="research"} 2.0',
        'jobs_done_total{agent="jarvis"} 5.0',
        'servers_up{agent="jarvis"} 1.0',
    }
    count(store, "research", 3, generation=2)
    assert 'jobs_done_total{agent="research"} 5.0' in series(store)


def test_a_drained_generations_gauges_vanish_and_the_live_ones_stay(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path)
    count(store, "research", 2, generation=1)
    count(store, "research", 3, generation=2)
    assert 'jobs_done_total{agent="research"} 5.0' in series(store)
    store.process_gone("research", 1)
    counted = {'jobs_done_total{agent="research"} 5.0'}
    assert series(store) == counted | {'servers_up{agent="research"} 1.0'}
    store.process_gone("research", 2)
    assert series(store) == counted


def test_nothing_is_left_of_a_removed_agent(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path)
    count(store, "research", 2)
    (store.directory / f"{store.slot('research', 1)}.lock").touch()
    store.remove("research")
    store.remove("research")
    assert series(store) == set()
    assert list(store.directory.iterdir()) == []
    assert series(store) == set()


def test_what_is_no_sound_file_of_an_agent_is_left_out_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = MetricsStore(tmp_path)
    count(store, "jarvis", 5)
    slot = store.slot("research", 1)
    contents = {
        f"counter_{slot}.db": b"",
        f"histogram_{slot}.db": b"\x40\0",
        f"summary_{slot}.db": random.Random(5).randbytes(65536),
        "counter_31415.db": (tmp_path / f"counter_{store.slot('jarvis', 1)}.db").read_bytes(),
        "notes.txt": b"hello",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / f"gauge_livesum_{slot}.db").mkdir()
    os.mkfifo(tmp_path / f"gauge_all_{slot}.db")
    (tmp_path / f"gauge_max_{slot}.db").symlink_to("/dev/zero")
    for _ in range(3):
        assert series(store) == {
            'jobs_done_total{agent="jarvis"} 5.0',
            'servers_up{agent="jarvis"} 1.0',
        }
    assert len(caplog.records) == 8
    for file in tmp_path.iterdir():
        assert file.name in caplog.text or file.name.startswith(
            ("a1", "counter_a1", "gauge_livemostrecent_a1")
        )


def test_a_file_that_is_spoilt_between_scrapes_is_left_out_until_it_is_sound(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = MetricsStore(tmp_path)
    count(store, "jarvis", 5)
    count(store, "research", 2)
    file = tmp_path / f"counter_{store.slot('research', 1)}.db"
    sound = file.read_bytes()
    theirs = 'jobs_done_total{agent="research"} 2.0'
    for spoilt in (sound[:40], sound[:3], b"", b"\x07" * 4096, sound[:4] + b"\x07" * 4092, bytes(65536)):
        assert theirs in series(store)
        file.write_bytes(spoilt)
        assert series(store) >= {'jobs_done_total{agent="jarvis"} 5.0'}
        assert not any(line.startswith('jobs_done_total{agent="research"') for line in series(store))
        file.write_bytes(sound)
    assert theirs in series(store)
    assert len(caplog.records) >= 1


def test_a_directory_that_is_gone_costs_the_workers_series_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = MetricsStore(tmp_path / "metrics")
    count(store, "jarvis", 5)
    shutil.rmtree(tmp_path / "metrics")
    assert series(store) == series(store) == set()
    assert len(caplog.records) == 1


def test_an_agent_may_leave_during_a_scrape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MetricsStore(tmp_path)
    count(store, "research", 2)
    count(store, "jarvis", 5)
    list_directory = os.scandir

    def leave(directory: str) -> Any:
        with list_directory(directory) as scan:
            entries = list(scan)
        store.remove("research")
        return contextlib.nullcontext(entries)

    monkeypatch.setattr(os, "scandir", leave)
    found = series(store)
    monkeypatch.undo()
    assert 'jobs_done_total{agent="jarvis"} 5.0' in found
    assert not any("research" in line for line in found)


FORK = """
import os, sys
from pallas_worker.telemetry import metrics as m
m.open_metrics(sys.argv[1], sys.argv[2])
m.count_llm_turn("research", "gpt-5")
children = int(sys.argv[3])
for _ in range(children):
    if os.fork() == 0:
        m.count_llm_turn("research", "gpt-5")
        m.set_downstream_up("research", "argos", False)
        os._exit(0)
    os.wait()
print(flush=True)
input()
"""


def test_what_children_of_a_worker_counted_is_kept_in_one_file(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path)
    counted = 0
    for generation in (1, 2):
        command = [sys.executable, "-c", FORK, str(tmp_path), store.slot("research", generation), "5"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
            assert worker.stdout is not None
            worker.stdout.readline()
            counted += 6
            if generation == 1:  # or else not before its end
                assert f'pallas_llm_turns_total{{agent="research",model="gpt-5"}} {counted}.0' in series(
                    store
                )
                left = {file.name for file in tmp_path.glob("*.p*.db")}
                assert left == {f"counter_{store.slot('research', 1)}.p0.db"}
            worker.communicate(b"\n")
        store.process_gone("research", generation)
    assert series(store) == {f'pallas_llm_turns_total{{agent="research",model="gpt-5"}} {counted}.0'}
    slot = store.slot("research", 3)
    assert {file.name for file in tmp_path.iterdir()} == {
        f"{slot}.lock",
        f"counter_{slot}.db",
        f"counter_{slot}.p0.db",
        f"histogram_{slot}.db",
    }


def test_what_children_left_is_folded_after_the_end_of_their_worker(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path)
    command = [sys.executable, "-c", FORK, str(tmp_path), store.slot("research", 1), "3"]
    subprocess.run(command, input=b"\n", check=True)
    (tmp_path / f"counter_{store.slot('research', 1)}.p999999999.db").write_bytes(b"spoilt")
    store.process_gone("research", 1)
    assert 'pallas_llm_turns_total{agent="research",model="gpt-5"} 4.0' in series(store)
    assert not [file for file in tmp_path.glob("*.p*.db") if ".p0." not in file.name]
    store.remove("research")
    assert series(store) == set()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_removed_is_not_taken_for_the_next_of_its_name(tmp_path: Path) -> None:
    """Even if it has the same inode and keys of the same lengths."""
    merged = MergedFiles(tmp_path)
    file = tmp_path / "gauge_livesum_a1s0.db"
    for server in ("argos", "hades"):
        key = f'["servers_up", "servers_up", {{"server": "{server}"}}, "Up."]'
        file.write_bytes(encode([(key.encode(), 1.0, 0.0)]))
        merged.forget([file.name])
        merged.read({"a1": None})
        assert page(merged.families(), TEXT).endswith(f'{{server="{server}"}} 1.0\n'.encode())


@pytest.mark.parametrize("whole", [False, True])
def test_what_was_counted_outlives_its_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, whole: bool
) -> None:
    """A live worker makes its own again, and what was read of them is shown until then."""
    store = MetricsStore(tmp_path / "metrics")
    count(store, "jarvis", 5)
    count(store, "research", 2)
    before = series(store)
    assert {'jobs_done_total{agent="research"} 2.0', 'servers_up{agent="jarvis"} 1.0'} <= before
    store.process_gone("research", 1)

    def remove() -> None:
        if whole:
            shutil.rmtree(store.directory)
        else:
            for file in store.directory.glob("*.db"):
                file.unlink()

    remove()
    kept = before - {'servers_up{agent="research"} 1.0'}
    for _ in range(3):
        assert series(store) == kept
    assert {file.name for file in store.directory.glob("*.db")} == {"counter_a2s0.db"}
    assert len([r for r in caplog.records if "counter_a2s0.db was removed" in r.getMessage()]) == 1
    remove()
    count(store, "research", 3, generation=2)  # nobody has looked in between
    assert series(store) == kept - {'jobs_done_total{agent="research"} 2.0'} | {
        'jobs_done_total{agent="research"} 5.0',
        'servers_up{agent="research"} 1.0',
    }


@pytest.mark.parametrize("kind", ["a FIFO", "a link", "a directory"])
def test_what_an_agent_has_put_in_a_new_files_place_is_not_written_to(tmp_path: Path, kind: str) -> None:
    """To open a FIFO would hold up the supervisor until somebody reads it."""
    store = MetricsStore(tmp_path / "metrics")
    count(store, "research", 2)
    before = series(store)
    file = store.directory / "counter_a1s0.db"
    file.unlink()
    place, other = store.directory / f"{file.name}.again.new", tmp_path / "other"
    other.write_text("another's")
    with contextlib.ExitStack() as stack:
        match kind:
            case "a FIFO":
                os.mkfifo(place)
                stack.callback(os.close, os.open(place, os.O_RDWR))  # a test shall not be held up either
            case "a link":
                place.symlink_to(other)
            case _:
                (place / "full").mkdir(parents=True)
        store.slot("research", 2)
        store.process_gone("research", 1)
        store.process_gone("research", 2)
        store.slot("research", 3)
    assert file.is_file()
    assert not file.is_symlink()
    assert series(store) == before - {'servers_up{agent="research"} 1.0'}
    assert other.read_text() == "another's"
    assert not os.path.lexists(place)


def test_what_children_counted_outlives_its_file(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path)
    command = [sys.executable, "-c", FORK, str(tmp_path), store.slot("research", 1), "3"]
    subprocess.run(command, input=b"\n", check=True)
    before = series(store)
    (tmp_path / "counter_a1s0.p0.db").unlink()
    assert series(store) == before
    assert (tmp_path / "counter_a1s0.p0.db").exists()


def test_no_directory_and_nothing_in_it_can_raise_at_a_workers_end(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path / "metrics")
    slot = store.slot("research", 1)
    (store.directory / f"gauge_livesum_{slot}.db" / "full").mkdir(parents=True)
    os.mkfifo(store.directory / f"gauge_livemax_{slot}.db")
    store.process_gone("research", 1)
    assert series(store) == set()
    store.slot("research", 2)
    shutil.rmtree(store.directory)
    store.process_gone("research", 2)
    store.remove("research")
    assert series(store) == set()
    assert store.slot("jarvis", 1)
    assert store.directory.is_dir()


def test_children_may_leave_anything(tmp_path: Path) -> None:
    store = MetricsStore(tmp_path)
    count(store, "research", 2)
    slot = store.slot("research", 1)
    for kind in ("counter", "histogram", "gauge_livesum"):
        (tmp_path / f"{kind}_{slot}.p999999997.db" / "full").mkdir(parents=True)
        os.mkfifo(tmp_path / f"{kind}_{slot}.p999999998.db")
        (tmp_path / f"{kind}_{slot}.p999999999.db").symlink_to("/dev/zero")
    (tmp_path / f"counter_{slot}.p99999999999999999999999999.db").write_bytes(b"\xff" * 8192)
    for _ in range(2):
        assert 'jobs_done_total{agent="research"} 2.0' in series(store)
    assert not list(tmp_path.glob("*.p9*"))


def test_a_file_may_change_while_it_is_read(tmp_path: Path) -> None:
    """Cut short, grown, replaced: the reader is never killed by it, and nobody else's series are missing."""
    store = MetricsStore(tmp_path)
    count(store, "jarvis", 5)
    count(store, "research", 2)
    file = tmp_path / f"counter_{store.slot('research', 1)}.db"
    sound = file.read_bytes()
    script = """
import os, random, sys
path, sound = sys.argv[1], open(sys.argv[1], "rb").read()
descriptor = os.open(path, os.O_RDWR)
print(flush=True)
while True:
    os.ftruncate(descriptor, random.choice([0, 3, 8, 40, 4096, 1 << 40]))
    os.pwrite(descriptor, sound[: random.choice([4, 40, 100, len(sound)])], 0)
    os.pwrite(descriptor, random.randbytes(4), random.choice([0, 8, 12, 40]))
"""
    with subprocess.Popen([sys.executable, "-c", script, str(file)], stdout=subprocess.PIPE) as hostile:
        assert hostile.stdout is not None
        hostile.stdout.readline()
        for _ in range(300):
            found = page(store.families(), TEXT).decode()
            assert 'jobs_done_total{agent="jarvis"} 5.0' in found
        hostile.kill()
    # Not unlinked: a file system may give the inode's number to the next file, which would then be taken for this one.
    file.rename(file.with_name(f"{file.name}.damaged"))
    file.write_bytes(sound)
    assert 'jobs_done_total{agent="research"} 2.0' in series(store)
