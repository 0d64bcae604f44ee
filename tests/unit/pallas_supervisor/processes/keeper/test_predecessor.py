"""What an earlier supervisor has left is ended by its sign; whoever only looks like it is let alone. Real processes."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pallas_common.processes.tree import OWNER_VARIABLE
from pallas_supervisor.processes.keeper import predecessor
from pallas_supervisor.processes.keeper.predecessor import VARIABLE, Trail, end_predecessor, forget
from pallas_supervisor.processes.linux import procfs
from support.supervisor.processes import PATIENCE, nothing_leaked, until_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WORD = secrets.token_hex(16)
"""Another one in each process of tests: several may run at the same time, and would end each other's programs."""
SLEEP = "import time; time.sleep(3600)"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with nothing_leaked():
        yield


@pytest.fixture
def run() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes that the test is the parent of, and ends those that are left."""
    started: list[subprocess.Popen[bytes]] = []

    def start(source: str = SLEEP, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        options.setdefault("env", {VARIABLE: WORD})
        process = subprocess.Popen([sys.executable, "-ISc", source, *arguments], **options)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def trail(**changes: Any) -> Trail:
    fields: dict[str, Any] = {
        "boot": predecessor._boot(),
        "fleet": WORD,
        "lifeline": 0,
        "since": procfs.started(os.getpid()),
        "keeper": None,
        "keeper_since": None,
    }
    return Trail(**fields | changes)


def ended(process: subprocess.Popen[bytes]) -> bool:
    return process.wait(PATIENCE) == -signal.SIGKILL


def test_what_bears_the_word_is_killed_and_told(
    tmp_path: Path, run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    processes = [run(), run(start_new_session=True), run()]
    os.kill(processes[2].pid, signal.SIGSTOP)
    trail().write(tmp_path)
    (told,) = end_predecessor(tmp_path)
    assert all(map(ended, processes))
    assert all(str(process.pid) in told for process in processes)
    assert end_predecessor(tmp_path) == []


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {OWNER_VARIABLE: "research/1"},
        {VARIABLE: WORD[::-1]},
        {VARIABLE: WORD + "0"},
        {"OLD_" + VARIABLE: WORD},
        {"NOTE": f"{VARIABLE}={WORD}"},
    ],
)
def test_whoever_bears_something_else_lives(
    environment: dict[str, str], tmp_path: Path, run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Say a shell in which somebody looks into a worker's trouble, or another deployment."""
    process = run(env=environment)
    trail().write(tmp_path)
    assert end_predecessor(tmp_path) == []
    assert process.poll() is None


def test_a_title_is_no_sign(tmp_path: Path) -> None:
    command = ["pallas-worker research 1 [demo]", "-ISc", SLEEP]
    with subprocess.Popen(command, executable=sys.executable, env={}) as process:
        trail().write(tmp_path)
        assert end_predecessor(tmp_path) == []
        assert process.poll() is None
        process.kill()


def test_whoever_holds_the_lifeline_is_killed(
    tmp_path: Path, run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    reader, writer = os.pipe()
    other, other_writer = os.pipe()
    holder, stranger = run(env={}, pass_fds=[reader]), run(env={}, pass_fds=[other])
    trail(lifeline=os.fstat(reader).st_ino).write(tmp_path)
    for descriptor in (reader, writer, other, other_writer):
        os.close(descriptor)
    end_predecessor(tmp_path)
    assert ended(holder)
    assert stranger.poll() is None


def test_descendants_go_along_whatever_they_bear(
    tmp_path: Path, run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    told = tmp_path / "told"
    source = """
import os, sys, time
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        tell = "import os, sys, time; open(sys.argv[1], 'a').write(f'{os.getpid()}\\\\n'); time.sleep(3600)"
        os.execve(sys.executable, [sys.executable, "-ISc", tell, sys.argv[1]], {})
time.sleep(3600)
"""
    process = run(source, str(told))
    while len(until_written(told).split()) < 2:
        pass
    below = [psutil.Process(int(pid)) for pid in told.read_text().split()]
    trail().write(tmp_path)
    end_predecessor(tmp_path)
    assert ended(process)
    _, alive = psutil.wait_procs(below, timeout=PATIENCE)
    assert not alive


def test_whoever_is_older_than_the_earlier_supervisor_is_none_of_its_processes(
    tmp_path: Path, run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = run()
    begun = procfs.started(process.pid)
    assert begun is not None
    trail(since=begun + 1).write(tmp_path)
    assert end_predecessor(tmp_path) == []
    assert process.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: needs root, who could kill everybody's")
def test_another_users_process_is_not_touched(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "3600"], env={**os.environ, VARIABLE: WORD}, user=65534) as process:
        trail().write(tmp_path)
        assert end_predecessor(tmp_path) == []
        assert process.poll() is None
        process.kill()


def test_whoever_starts_the_next_supervisor_is_spared(tmp_path: Path) -> None:
    """An agent's tool may have done it: its shell bears the word, and so does the new supervisor itself."""
    trail().write(tmp_path)
    source = (
        "import subprocess, sys; from pathlib import Path\n"
        "from pallas_supervisor.processes.keeper.predecessor import end_predecessor\n"
        "beside = subprocess.Popen([sys.executable, '-ISc', 'import time; time.sleep(3600)'])\n"
        "end_predecessor(Path(sys.argv[1])); print(beside.wait(), 'done')"
    )
    command = f'"{sys.executable}" -c "$SOURCE" "{tmp_path}"; echo shell'
    environment = {**os.environ, VARIABLE: WORD, "SOURCE": source}
    done = subprocess.run(
        ["sh", "-c", command],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.split() == ["done", "shell"] or done.stdout.split() == ["-9", "done", "shell"]


@pytest.mark.parametrize("changes", [{"boot": "another"}, {"fleet": ""}, {"lifeline": None}, {"since": "0"}])
def test_a_note_of_another_boot_or_that_makes_no_sense_says_nothing(
    changes: dict[str, Any], tmp_path: Path, run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = run(env={VARIABLE: changes.get("fleet", WORD)})
    trail(**changes).write(tmp_path)
    assert end_predecessor(tmp_path) == []
    assert process.poll() is None


@pytest.mark.parametrize("text", ["", "{", "[1]", '"x"', "[" * 4000, '{"boot": "x", "more": 1}', "\0\xff"])
def test_a_note_that_cannot_be_read_says_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text(text)
    assert end_predecessor(tmp_path) == []


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fleet.json")
    assert end_predecessor(tmp_path) == []
    forget(tmp_path)
    (tmp_path / "fleet.json").symlink_to("/dev/zero")
    assert end_predecessor(tmp_path) == []


def test_the_note_is_private_and_forgotten_after_a_clean_end(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    mine = Trail.of_this_process(WORD, reader, os.getpid())
    mine.write(tmp_path)
    os.close(reader)
    os.close(writer)
    path = tmp_path / "fleet.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert Trail(**json.loads(path.read_text())) == mine
    assert [entry.name for entry in tmp_path.iterdir()] == ["fleet.json"]
    forget(tmp_path)
    forget(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["a FIFO", "a link"])
def test_what_an_agent_has_put_in_the_notes_place_is_not_written_to(tmp_path: Path, kind: str) -> None:
    directory, other = tmp_path / "run", tmp_path / "other"
    directory.mkdir()
    other.write_text("another's")
    place = directory / "fleet.new"
    held = None
    if kind == "a FIFO":
        os.mkfifo(place)
        held = os.open(place, os.O_RDWR)  # without a reader, whoever opens it to write would wait for one
    else:
        place.symlink_to(other)
    trail().write(directory)
    if held is not None:
        os.close(held)
    (note,) = directory.iterdir()
    assert not note.is_symlink()
    assert note.is_file()
    assert Trail(**json.loads(note.read_text())) == trail()
    assert other.read_text() == "another's"


KEEPER = """
import os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
open(sys.argv[1], "w").write("up\\n")
signal.sigwait({signal.SIGTERM})
open(sys.argv[1], "w").write("hurried\\n")
"""


def keeper(
    tmp_path: Path, run: Callable[..., subprocess.Popen[bytes]], **options: Any
) -> subprocess.Popen[bytes]:
    process = run(KEEPER, str(tmp_path / "told"), **options)
    assert until_written(tmp_path / "told") == "up\n"
    return process


def test_a_keeper_that_is_still_at_it_is_hurried_and_not_killed(
    tmp_path: Path, run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = keeper(tmp_path, run)
    os.kill(process.pid, signal.SIGSTOP)
    trail(keeper=process.pid, keeper_since=procfs.started(process.pid)).write(tmp_path)
    assert end_predecessor(tmp_path) == []
    assert process.wait() == 0
    assert (tmp_path / "told").read_text() == "hurried\n"


def test_one_that_does_not_end_is_killed_like_the_others(
    tmp_path: Path, run: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predecessor, "KEEPER_PATIENCE", 0.05)
    told = tmp_path / "told"
    deaf = (
        "import signal, sys, time; signal.signal(15, signal.SIG_IGN); open(sys.argv[1], 'w').write('up\\n')"
    )
    process = run(f"{deaf}; time.sleep(3600)", str(told))
    until_written(told)
    trail(keeper=process.pid, keeper_since=procfs.started(process.pid)).write(tmp_path)
    assert len(end_predecessor(tmp_path)) == 1
    assert ended(process)


def test_however_long_the_keeper_took_those_that_are_killed_then_have_their_time(
    tmp_path: Path, run: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def take_all_its_time(_trail: Trail) -> None:
        now[0] += predecessor.KEEPER_PATIENCE

    monkeypatch.setattr(predecessor, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(predecessor, "_hurry", take_all_its_time)
    processes = [run() for _ in range(3)]
    trail().write(tmp_path)
    (told,) = end_predecessor(tmp_path)
    assert told.startswith("killed what an earlier supervisor had left behind")
    assert all(map(ended, processes))


@pytest.mark.parametrize("case", ["another start", "another word"])
def test_whoever_has_the_keepers_number_now_lives(
    case: str, tmp_path: Path, run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = keeper(tmp_path, run, env={} if case == "another word" else {VARIABLE: WORD[::-1]})
    begun = procfs.started(process.pid)
    assert begun is not None
    trail(keeper=process.pid, keeper_since=begun - (case == "another start")).write(tmp_path)
    assert end_predecessor(tmp_path) == []
    poll = select.poll()
    poll.register(descriptor := os.pidfd_open(process.pid), select.POLLIN)
    assert not poll.poll(0)
    os.close(descriptor)
    assert (tmp_path / "told").read_text() == "up\n"
