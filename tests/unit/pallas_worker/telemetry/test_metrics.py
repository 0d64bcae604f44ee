"""The worker's metrics: exact names, and files that survive kills, forks, second writers and full disks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pallas_common.metrics.writing.slot_files import ReservedFile, reserve, slot_files
from pallas_worker.telemetry import metrics
from support.data.exposition import MmapedDict, parse_openmetrics
from support.repository import ROOT
from support.worker.record import RECORD_ALL, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TESTS = ROOT / "tests"

REFERENCE = {
    ("pallas_send_message", "counter", ("agent", "outcome")),
    ("pallas_send_message_duration_seconds", "histogram", ("agent",)),
    ("pallas_llm_turns", "counter", ("agent", "model")),
    ("pallas_llm_tokens", "counter", ("agent", "kind", "model")),
    ("pallas_model_tool_calls", "counter", ("agent", "outcome", "server")),
    ("pallas_refused_tool_calls", "counter", ("agent",)),
    ("pallas_tool_calls", "counter", ("agent", "operation", "outcome", "server")),
    ("pallas_tool_call_duration_seconds", "histogram", ("agent", "operation", "server")),
    ("pallas_downstream_up", "gauge", ("agent", "server")),
    ("pallas_llm_provider_up", "gauge", ("provider",)),
    ("pallas_health_checked_timestamp_seconds", "gauge", ("agent",)),
    ("pallas_calls_running", "gauge", ("agent",)),
    ("pallas_calls_waiting", "gauge", ("agent",)),
}
"""The worker's rows of the technical reference, "Metrics Reference", and gauges of its queue and its probes; a
counter's samples add `_total`."""


def samples(text: str) -> dict[str, float]:
    """Every sample of a text-format page, by name and sorted labels."""
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def test_names_types_and_labels_are_those_of_the_reference(tmp_path: Path) -> None:
    page = run(RECORD_ALL + "print(m.render(None)[0].decode())", tmp_path)
    found = {
        (family.name, family.type, tuple(sorted(set(sample.labels) - {"le"})))
        for family in parse_text(page)
        for sample in family.samples
    }
    assert found == REFERENCE
    assert all(family.documentation.endswith(".") for family in parse_text(page))
    assert all(
        "in seconds" in family.documentation
        for family in parse_text(page)
        if family.name.endswith("_seconds")
    )


def test_values_are_what_was_recorded(tmp_path: Path) -> None:
    values = samples(run(RECORD_ALL + "print(m.render(None)[0].decode())", tmp_path))
    agent = ("agent", "research")
    assert values[f"pallas_send_message_total{[agent, ('outcome', 'ok')]}"] == 1
    assert values[f"pallas_send_message_total{[agent, ('outcome', 'error')]}"] == 1
    assert values[f"pallas_send_message_duration_seconds_sum{[agent]}"] == 91.5
    assert values[f"pallas_send_message_duration_seconds_bucket{[agent, ('le', '60.0')]}"] == 1
    assert values[f"pallas_llm_tokens_total{[agent, ('kind', 'input'), ('model', 'gpt-5')]}"] == 70
    assert f"pallas_llm_tokens_total{[agent, ('kind', 'output'), ('model', 'gpt-5')]}" not in values
    assert values[f"pallas_downstream_up{[agent, ('server', 'argos')]}"] == 1
    assert values[f"pallas_llm_provider_up{[('provider', 'openai')]}"] == 0
    assert values[f"pallas_calls_running{[agent]}"] == 3
    assert values[f"pallas_calls_waiting{[agent]}"] == 2


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text;version=nonsense", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text; version=1.0.0"),
    ],
)
def test_the_format_is_negotiated(tmp_path: Path, accept: str | None, content_type: str) -> None:
    script = f"body, type_ = m.render({accept!r}); print(type_); print(body.decode(), end='')"
    type_, _, page = run(RECORD_ALL + script, tmp_path).partition("\n")
    assert type_.startswith(content_type)
    parse = parse_openmetrics if "openmetrics" in type_ else parse_text
    assert {family.name for family in parse(page)} == {name for name, _, _ in REFERENCE}


def test_an_agents_own_calls_are_counted_from_0_on(tmp_path: Path) -> None:
    script = """
from pallas_worker.telemetry import metrics as m
m.open_metrics(directory, "a1s0", "research")
print(m.render(None)[0].decode())
"""
    values = samples(run(script, tmp_path))
    assert values["pallas_send_message_total[('agent', 'research'), ('outcome', 'ok')]"] == 0
    assert values["pallas_send_message_total[('agent', 'research'), ('outcome', 'error')]"] == 0
    assert values["pallas_send_message_duration_seconds_count[('agent', 'research')]"] == 0


def test_the_agents_port_shows_what_its_other_slots_counted(tmp_path: Path) -> None:
    script = """
import os
from pallas_worker.telemetry import metrics as m
for slot, agent, turns in (("a1s0", "research", 3), ("a1s1", "research", 4), ("a10s0", "jarvis", 9)):
    if os.fork() == 0:
        m.open_metrics(directory, slot)
        for _ in range(turns):
            m.count_llm_turn(agent, "gpt-5")
        m.set_downstream_up(agent, "argos", True)
        os._exit(0)
    os.wait()
m.open_metrics(directory, "a1s0")
m.count_llm_turn("research", "gpt-5")
print(m.render(None)[0].decode())
"""
    values = samples(run(script, tmp_path))
    assert values["pallas_llm_turns_total[('agent', 'research'), ('model', 'gpt-5')]"] == 8
    assert not any("jarvis" in name for name in values)


@pytest.mark.parametrize(("status", "value"), [("ok", 1), ("degraded", 0.5), ("error", 0)])
@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_the_agents_port_shows_its_port_and_its_health(
    tmp_path: Path, status: str, value: float, accept: str
) -> None:
    script = f"""
from pallas_common.metrics.agent_info import agent_families
from pallas_worker.telemetry import metrics as m
m.open_metrics(directory, "a1s0", "research")
print(m.render({accept!r}, agent_families("research", 24210, {status!r}))[0].decode(), end="")
"""
    page = run(script, tmp_path)
    assert not accept or list(parse_openmetrics(page))
    values = samples(page.removesuffix("# EOF\n"))
    assert values["pallas_agent_health_status[('agent', 'research')]"] == value
    assert values["pallas_agent_info[('agent', 'research'), ('port', '24210')]"] == 1


def test_before_open_recording_does_nothing_and_rendering_says_so() -> None:
    metrics.observe_send_message("research", "ok", 1)
    metrics.set_downstream_up("research", "argos", True)
    with pytest.raises(RuntimeError, match="open_metrics"):
        metrics.render(None)


def test_importing_opens_nothing_and_a_fork_of_the_importer_may_open(tmp_path: Path) -> None:
    script = """
import os, gc
from pallas_worker.telemetry import metrics as m
assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ
assert os.listdir(directory) == []
gc.freeze()
for slot in ("a0", "b0"):
    if os.fork() == 0:
        m.open_metrics(directory, slot)
        m.count_llm_turn(slot, "gpt-5")
        os._exit(0)
    os.wait()
m.open_metrics(directory, "c0")
print(m.render(None)[0].decode())
"""
    assert samples(run(script, tmp_path)) == {}
    assert {path.name for path in tmp_path.glob("counter_*.db")} == {f"counter_{slot}0.db" for slot in "abc"}


@pytest.mark.parametrize("slot", ["", "a_b", "a*", "a.p1", "../x", "ä"])
def test_a_slot_name_that_would_not_be_parsed_back_is_refused(tmp_path: Path, slot: str) -> None:
    with pytest.raises(ValueError, match="letters and digits"):
        metrics.open_metrics(str(tmp_path), slot)


def test_counters_survive_sigkill_at_random_points(tmp_path: Path) -> None:
    rounds = 150
    done = subprocess.run(
        [sys.executable, "-m", "support.faults.slot_killer", str(tmp_path), "a0", str(rounds), "7"],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    for name in ("counted", "observed"):
        assert result["acknowledged"] <= result[name] <= result["acknowledged"] + rounds
    assert {path.name for path in tmp_path.iterdir()} == {
        "a0.lock",
        "counter_a0.db",
        "histogram_a0.db",
        "gauge_livemostrecent_a0.db",
        "gauge_livesum_a0.db",
    }


def test_reopening_keeps_counters_and_drops_the_last_ones_gauges(tmp_path: Path) -> None:
    run(RECORD_ALL, tmp_path)
    script = """
from pallas_worker.telemetry import metrics as m
m.open_metrics(directory, "a0")
m.count_llm_turn("research", "gpt-5")
print(m.render(None)[0].decode())
"""
    values = samples(run(script, tmp_path))
    assert values["pallas_llm_turns_total[('agent', 'research'), ('model', 'gpt-5')]"] == 2
    assert not any(name.startswith(("pallas_downstream_up", "pallas_calls_")) for name in values)


def test_a_second_writer_is_refused_and_told_by_whom(tmp_path: Path) -> None:
    script = """
import os, subprocess, sys
from pallas_worker.telemetry import metrics as m
m.open_metrics(directory, "a0")
try:
    m.open_metrics(directory, "a1")
except RuntimeError as error:
    assert "a0" in str(error)
code = '''
import sys
from pallas_worker.telemetry import metrics as m
try:
    m.open_metrics(sys.argv[1], "a0")
except Exception as error:
    print(type(error).__name__, error)
m.open_metrics(sys.argv[1], "a1")
'''
command = [sys.executable, "-c", code, directory]
said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
assert said == f"SlotBusyError cannot open metrics slot 'a0': process {os.getpid()} is writing it\\n", said
"""
    run(script, tmp_path)


def test_a_forked_child_writes_beside_the_slot_and_does_not_hold_its_lock(tmp_path: Path) -> None:
    script = """
import json, os
from pallas_worker.telemetry import metrics as m
go, started = os.pipe(), os.pipe()
worker = os.fork()
if worker == 0:
    m.open_metrics(directory, "a0")
    m.count_llm_turn("research", "gpt-5")
    m.set_downstream_up("research", "argos", True)
    child = os.fork()
    for _ in range(1000):
        m.count_llm_turn("research", "gpt-5")
    if child == 0:
        grandchild = os.fork()
        if grandchild == 0:
            m.count_llm_turn("research", "gpt-5")
            os._exit(0)
        assert os.waitpid(grandchild, 0)[1] == 0
        m.set_downstream_up("research", "argos", False)
        page = m.render(None)[0]
        os.write(started[1], page)
        os.close(go[1])
        os.read(go[0], 1)  # outlives the worker
        os._exit(0)
    os.kill(os.getpid(), 9)
page = os.read(started[0], 1 << 16).decode()
os.waitpid(worker, 0)
m.open_metrics(directory, "a0")  # the lock is free although the child lives
m.count_llm_turn("research", "gpt-5")
os.close(go[1])
print(m.render(None)[0].decode())
"""
    values = samples(run(script, tmp_path))
    assert values["pallas_llm_turns_total[('agent', 'research'), ('model', 'gpt-5')]"] == 1 + 2000 + 1 + 1
    assert not [path for path in slot_files(str(tmp_path), "a0") if "gauge" in path and ".p" in path]


def test_a_slot_does_not_take_in_its_neighbours(tmp_path: Path) -> None:
    for name in (
        "counter_a0.db",
        "counter_a0.p12.db",
        "counter_a01.db",
        "counter_b.a0.db",
        "counter_a0.db.damaged",
    ):
        (tmp_path / name).touch()
    assert [Path(path).name for path in slot_files(str(tmp_path), "a0")] == [
        "counter_a0.db",
        "counter_a0.p12.db",
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x08\0",
        b"\xff\xff\xff\x7f" + bytes(4092),
        b"\x40\0\0\0" + bytes(4092),
        b"\x40\0\0\0\0\0\0\0\xf0\xff\xff\xff" + bytes(4084),
        b"\x28\0\0\0\0\0\0\0\x04\0\0\0nope" + bytes(4080),
        b"\xff\xff\xff\xff" + bytes(4092),
        b"\x01\0\0\0" + bytes(4092),
        b"\x40\0\0\0\0\0\0\0\x08\0\0\0[1,2,3] " + bytes(4076),
        b"\x08\0\0\0" + bytes(5),
    ],
)
def test_a_damaged_file_is_set_aside(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "counter_a0.db"
    path.write_bytes(content)
    reserve(str(path))
    assert "counter_a0.db is set aside" in caplog.text
    assert path.with_suffix(".db.damaged").read_bytes() == content
    assert path.stat().st_size == 65536
    reserve(str(path))
    assert len(caplog.records) == 1


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_at_all_is_set_aside(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "counter_a0.db"
    (tmp_path / "counter_a0.db.damaged" / "full").mkdir(parents=True)  # the last one that was set aside
    make(path)
    reserve(str(path))
    assert path.lstat().st_size == 65536
    assert not (tmp_path / "counter_a0.db.damaged" / "full").exists()


def test_a_file_without_end_is_set_aside_unread(tmp_path: Path) -> None:
    path = tmp_path / "counter_a0.db"
    reserve(str(path))
    os.truncate(path, 2**40)  # with all its sound beginning; to read it would take all memory
    reserve(str(path))
    assert path.stat().st_size == 65536
    assert path.with_suffix(".db.damaged").stat().st_size == 2**40


@settings(deadline=None)
@given(st.binary(min_size=0, max_size=200), st.sampled_from([0, 8, 16, 40, 64]))
def test_no_content_can_hang_or_crash_the_check(content: bytes, used: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "counter_a0.db")
        path.write_bytes((used.to_bytes(4, "little") + bytes(4) + content).ljust(4096, b"\0"))
        reserve(str(path))
        list(MmapedDict.read_all_values_from_file(str(path)))
        file: Any = ReservedFile(str(path))
        file.close()


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[None]:
    """A tmpfs of the given size at `directory`."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
            pytest.fail(f"cannot mount a tmpfs: {mounted.stderr}")
        pytest.skip("not run: needs root, to mount a small tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_on_a_full_disk_nothing_is_recorded_until_there_is_room(tmp_path: Path) -> None:
    script = """
import logging, os
from pallas_worker.telemetry import metrics as m
logging.basicConfig(format="%(message)s")
m.RETRY = 0.0
with open(directory + "/ballast", "wb") as ballast:
    ballast.write(bytes(1 << 20))
m.open_metrics(directory, "a0", "research")
m.count_llm_turn("research", "gpt-5")
try:
    m.render(None)
except RuntimeError as error:
    print("not open" in str(error))
print([name for name in os.listdir(directory) if name.endswith(".new")])
print([os.stat(f"{directory}/{name}").st_size for name in os.listdir(directory) if name.endswith(".db")])
os.unlink(directory + "/ballast")
m.count_llm_turn("research", "gpt-5")
print(m.render(None)[0].decode())
"""
    with small_disk(tmp_path, "1120k"):
        refused, unfinished, sizes, page = run(script, tmp_path).split("\n", 3)
    assert (refused, unfinished) == ("True", "[]")
    assert set(json.loads(sizes)) <= {65536}
    assert samples(page)["pallas_llm_turns_total[('agent', 'research'), ('model', 'gpt-5')]"] == 1


def test_a_disk_that_fills_up_drops_new_series_and_keeps_the_old(tmp_path: Path) -> None:
    script = """
import logging, os
from pallas_worker.telemetry import metrics as m
logging.basicConfig(format="%(message)s")
m.open_metrics(directory, "a0")
m.count_llm_turn("research", "gpt-5")
with open(directory + "/ballast", "wb") as ballast:
    try:
        while True:
            ballast.write(bytes(4096)); ballast.flush()
    except OSError:
        pass
for number in range(2000):
    m.observe_tool_call("research", f"server-{number}", "tool", "ok", 1)
m.count_llm_turn("research", "gpt-5")
if (child := os.fork()) == 0:
    m.count_llm_turn("research", "gpt-5")
    m.count_llm_turn("research", "gpt-5")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
body = m.render(None)[0].decode()
os.unlink(directory + "/ballast")
for number in range(2000):
    m.observe_tool_call("research", f"server-{number}", "tool", "ok", 1)
print(body, "# END")
print(m.render(None)[0].decode())
"""
    with small_disk(tmp_path, "4m"):
        before, _, after = run(script, tmp_path).partition("# END")
    turns = "pallas_llm_turns_total[('agent', 'research'), ('model', 'gpt-5')]"
    assert samples(before)[turns] == samples(after)[turns] == 2
    counted = [name for name in samples(before) if name.startswith("pallas_tool_calls_total")]
    assert 0 < len(counted) < 2000
    assert sum(name.startswith("pallas_tool_call_duration_seconds_sum") for name in samples(after)) > len(
        counted
    )


REMOVE = """
import glob, os, shutil
from pallas_worker.telemetry import metrics as m
m.open_metrics(directory, "a1s0", "research")
m.count_llm_turn("research", "gpt-5")
m.set_downstream_up("research", "argos", True)
from prometheus_client import Gauge
Gauge("held", "Some.", registry=None, multiprocess_mode="sum").set(5)
"""


@pytest.mark.parametrize(
    "remove",
    [
        "shutil.rmtree(directory)",
        "[os.unlink(f'{directory}/{name}') for name in os.listdir(directory)]",
        "[(os.unlink(path), os.mkdir(path)) for path in glob.glob(f'{directory}/*.db')]",
        "[(os.unlink(path), os.mkfifo(path)) for path in glob.glob(f'{directory}/*.db')]",
    ],
)
def test_files_that_somebody_removes_are_made_again_with_all_that_was_counted(
    tmp_path: Path, remove: str
) -> None:
    directory = tmp_path / "metrics"
    directory.mkdir()
    script = f"""
{remove}
m.count_llm_turn("research", "gpt-5")
m.look_after_files()
m.count_llm_turn("research", "gpt-5")
m.look_after_files()
print(m.render(None)[0].decode())
"""
    values = samples(run(REMOVE + script, directory))
    assert values["pallas_llm_turns_total[('agent', 'research'), ('model', 'gpt-5')]"] == 3
    assert values["pallas_downstream_up[('agent', 'research'), ('server', 'argos')]"] == 1
    assert values["held[]"] == 5
    again = "from pallas_worker.telemetry import metrics as m; m.open_metrics(directory, 'a1s0', 'research')"
    values = samples(run(f"{again}; print(m.render(None)[0].decode())", directory))
    assert values["pallas_llm_turns_total[('agent', 'research'), ('model', 'gpt-5')]"] == 3
    assert values["pallas_send_message_total[('agent', 'research'), ('outcome', 'ok')]"] == 0


def test_a_slots_lock_is_made_again_with_its_files_and_still_keeps_others_out(tmp_path: Path) -> None:
    script = """
os.unlink(f"{directory}/a1s0.lock")
m.look_after_files()
import subprocess, sys
code = "import sys; from pallas_worker.telemetry import metrics as m; m.open_metrics(sys.argv[1], 'a1s0')"
done = subprocess.run([sys.executable, "-c", code, directory], capture_output=True, text=True)
print(f"process {os.getpid()} is writing it" in done.stderr)
"""
    assert run(REMOVE + script, tmp_path) == "True\n"


def test_who_comes_into_a_slot_in_between_is_left_alone(tmp_path: Path) -> None:
    """Two writers of one file would spoil it."""
    script = """
shutil.rmtree(directory)
os.mkdir(directory)
import subprocess, sys
code = "import sys; from pallas_worker.telemetry import metrics as m; "
code += "m.open_metrics(sys.argv[1], 'a1s0'); print(); input()"
with subprocess.Popen([sys.executable, "-c", code, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
    other.stdout.readline()
    before = {name: os.stat(f"{directory}/{name}").st_ino for name in os.listdir(directory)}
    m.look_after_files()
    print(before == {name: os.stat(f"{directory}/{name}").st_ino for name in os.listdir(directory)})
    other.communicate(b"\\n")
"""
    assert run(REMOVE + script, tmp_path) == "True\n"


def test_a_worker_whose_supervisor_has_ended_writes_nothing_into_the_next_ones_directory(
    tmp_path: Path,
) -> None:
    script = """
import os, shutil
ended, done = os.pipe(), os.pipe()
if os.fork() == 0:  # the supervisor
    if os.fork() == 0:
        from pallas_worker.telemetry import metrics as m
        m.open_metrics(directory, "a1s0", "research")
        os.write(done[1], b"x")
        os.read(ended[0], 1)
        m.look_after_files()
        os.write(done[1], b"x")
        os._exit(0)
    os.read(done[0], 1)
    os._exit(0)
os.wait()
for name in os.listdir(directory):
    os.unlink(f"{directory}/{name}")
os.write(ended[1], b"x")
os.read(done[0], 1)
print(os.listdir(directory))
"""
    assert run(script, tmp_path) == "[]\n"
