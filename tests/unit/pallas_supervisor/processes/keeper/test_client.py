"""The process between the supervisor and what it starts: what it answers, and what ends with whom. Real processes."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import resource
import select
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pallas_common.processes.descriptors import withhold_all
from pallas_supervisor.lifecycle.states import Exit
from pallas_supervisor.processes.keeper import client as module
from pallas_supervisor.processes.keeper import subreaper as keeper_process
from pallas_supervisor.processes.keeper.client import Keeper, KeeperError
from pallas_supervisor.processes.linux.process_tree import (
    THIS_PROCESS,
    children,
    kill_group,
    kill_strays,
    reap_zombies,
)
from support.supervisor.processes import PATIENCE, is_gone, nothing_leaked, subreaper, until_written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SLEEP = "import time; time.sleep(3600)"
HIDE = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
with open(sys.argv[1], "w") as file: file.write(f"{os.getpid()}\\n")
os.closerange(0, 100)
os.execve("/bin/sleep", ["sleep", "3600"], {})
"""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with nothing_leaked(), subreaper():
        yield


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    withhold_all()
    keeper = Keeper({"PATH": os.environ["PATH"]})
    keeper.start()
    try:
        yield keeper
    finally:
        keeper.end()


def run(keeper: Keeper, source: str, *arguments: str, inherited: Sequence[int] = ()) -> int:
    return keeper.execute([sys.executable, "-ISc", source, *arguments], {}, inherited, None)


def until_ended(pid: int) -> None:
    """Wait for anybody's child, which stays as it is."""
    descriptor = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(PATIENCE * 1000)
    os.close(descriptor)


def exit_of(keeper: Keeper, pid: int) -> Exit | None:
    descriptor = os.pidfd_open(pid)
    try:
        return keeper.exit_of(pid, descriptor)
    finally:
        os.close(descriptor)


def own(keeper: Keeper) -> psutil.Process:
    assert keeper.pid is not None
    return psutil.Process(keeper.pid)


def test_a_program_gets_its_descriptors_by_their_numbers_and_nothing_else(
    keeper: Keeper, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    output = os.open(tmp_path / "output", os.O_CREAT | os.O_WRONLY)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    pipes = [number for _ in range(3) for number in os.pipe()]
    pipes.append(fcntl.fcntl(output, fcntl.F_DUPFD_CLOEXEC, 5000))
    wanted = [*reversed(pipes), output]  # copied one after the other, some would be overwritten
    source = f"""
import os
found = {{}}
for name in os.listdir("/proc/self/fd"):
    try: found[int(name)] = os.readlink("/proc/self/fd/" + name)
    except OSError: pass
print("printed", flush=True)
open({str(told)!r}, "w").write(repr((found, os.getsid(0) == os.getpid(), os.environ.get("NAME"))) + "\\n")
"""
    pid = keeper.execute([sys.executable, "-ISc", source], {"NAME": "a=b\nc"}, wanted, output)
    found, leads, name = eval(until_written(told))
    expected = {number: str(Path(f"/proc/self/fd/{number}").readlink()) for number in wanted}
    file = expected[output]
    assert found == {0: "/dev/null", 1: file, 2: file, **expected}
    assert (leads, name) == (True, "a=b\nc")
    until_ended(pid)
    assert (tmp_path / "output").read_text() == "printed\n"
    for number in wanted:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_keeper_that_starts_sooner_than_its_limits_are_set_hands_on_those(keeper: Keeper) -> None:
    process = own(keeper)
    while process.name() != "pallas-keeper" or process.status() != psutil.STATUS_SLEEPING:
        pass
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (300, 2000))
    given = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 500)
    pid = run(keeper, SLEEP, inherited=[given])
    os.close(given)
    assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (300, 2000)


@pytest.mark.parametrize(
    ("source", "exit_"),
    [
        ("raise SystemExit(78)", Exit(status=78)),
        ("import os; os.kill(os.getpid(), 9)", Exit(signal=9)),
        ("pass", Exit(status=0)),
    ],
)
def test_an_exit_is_seen_without_reaping(keeper: Keeper, source: str, exit_: Exit) -> None:
    pid = run(keeper, source)
    until_ended(pid)
    assert exit_of(keeper, pid) == exit_of(keeper, pid) == exit_
    keeper.reap([pid])
    assert is_gone(pid)


def test_one_that_runs_has_no_exit_and_is_not_reaped(keeper: Keeper) -> None:
    pid = run(keeper, SLEEP)
    assert exit_of(keeper, pid) is None
    keeper.reap([pid])
    assert not is_gone(pid)
    assert keeper.pids() == {pid}
    assert keeper.is_certainly_ours(pid)


@pytest.mark.parametrize("path", ["/nowhere/python", "/"])
def test_what_cannot_be_executed_says_why(keeper: Keeper, path: str) -> None:
    with pytest.raises((FileNotFoundError, PermissionError), match=path):
        keeper.execute([path], {}, [], None)
    assert keeper.pid is not None


@pytest.mark.parametrize("room", range(5))
def test_a_keeper_without_room_for_all_descriptors_says_so_and_keeps_none(keeper: Keeper, room: int) -> None:
    run(keeper, SLEEP)  # after its first answer it does not change its limit any more
    process = own(keeper)
    held = {int(entry.name) for entry in Path(f"/proc/{process.pid}/fd").iterdir()}
    free = [number for number in range(100) if number not in held]
    before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (free[room], before[1]))
    with pytest.raises(OSError, match="Too many open files") as failure:
        run(keeper, SLEEP, inherited=[1, 2])
    assert failure.value.errno == errno.EMFILE
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
    assert {int(entry.name) for entry in Path(f"/proc/{process.pid}/fd").iterdir()} == held
    assert keeper.is_certainly_ours(run(keeper, SLEEP, inherited=[1, 2]))
    assert keeper.pid == process.pid


def test_orphans_come_to_the_keeper_and_not_to_us(keeper: Keeper, tmp_path: Path) -> None:
    before = set(children())
    parent = run(keeper, HIDE, str(tmp_path / "told"))
    orphan = int(until_written(tmp_path / "told"))
    until_ended(parent)
    assert keeper.pids() == {parent, orphan}
    assert set(children()) == before
    reap_zombies(set(), keeper)
    assert keeper.pids() == {orphan}
    while not kill_strays(set(), lambda pid, owner: pid == orphan and owner is None, keeper):
        pass
    assert keeper.pids() == set()


def test_those_to_reap_are_looked_for_once_however_many_they_are(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = [run(keeper, "pass") for _ in range(5)]
    for pid in ended:
        until_ended(pid)
    looks: list[int | None] = []

    def counted(parent: int | None = None) -> Iterator[int]:
        looks.append(parent)
        return children(parent)

    monkeypatch.setattr(module, "children", counted)
    keeper.reap(ended)
    assert looks == [keeper.pid]
    assert keeper.pids() == set()


def test_a_group_below_the_keeper_is_killed_and_reaped(keeper: Keeper, tmp_path: Path) -> None:
    source = (
        f"import os, time; os.fork(); open({str(tmp_path / 'told')!r}, 'a').write('x\\n'); time.sleep(3600)"
    )
    pid = run(keeper, source)
    while until_written(tmp_path / "told") != "x\nx\n":
        pass
    while not kill_group(pid, keeper):
        pass
    assert keeper.pids() == set()


def test_the_end_takes_everything_along_that_has_hidden(keeper: Keeper, tmp_path: Path) -> None:
    run(keeper, HIDE, str(tmp_path / "told"))
    stopped = run(keeper, SLEEP)
    os.kill(stopped, signal.SIGSTOP)
    orphan, process = int(until_written(tmp_path / "told")), own(keeper)
    keeper.end()
    assert is_gone(orphan)
    assert is_gone(stopped)
    assert not process.is_running()
    keeper.end()


def test_deaths_are_told(keeper: Keeper) -> None:
    async def wait() -> None:
        died = asyncio.Event()
        keeper.watch(died.set, lambda: None)
        run(keeper, "")
        async with asyncio.timeout(PATIENCE):
            await died.wait()
        keeper.end()

    asyncio.run(wait())


def test_the_children_of_a_keeper_that_was_killed_are_ours_and_another_comes(keeper: Keeper) -> None:
    async def lose() -> None:
        pids = [run(keeper, SLEEP), run(keeper, "raise SystemExit(3)")]
        until_ended(pids[1])
        lost = asyncio.Event()
        keeper.watch(lambda: None, lost.set)
        own(keeper).kill()
        async with asyncio.timeout(PATIENCE):
            await lost.wait()
        assert keeper.pid is None
        assert set(pids) <= keeper.pids()
        assert not keeper.is_certainly_ours(pids[0])
        assert exit_of(keeper, pids[1]) == Exit(status=3)
        pids.append(run(keeper, SLEEP))
        assert keeper.is_certainly_ours(pids[2])
        assert set(pids) <= keeper.pids()
        for pid in (pids[0], pids[2]):
            os.kill(pid, signal.SIGKILL)
            until_ended(pid)
        keeper.reap(pids)
        assert all(map(is_gone, pids))
        keeper.end()

    asyncio.run(lose())


def test_a_keeper_that_does_not_answer_is_given_up(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_TIMEOUT", 0.05)
    pid = run(keeper, SLEEP)
    process = own(keeper)
    process.suspend()
    assert exit_of(keeper, pid) is None, "it is our own child by now"
    assert not process.is_running()
    assert pid in set(children())
    os.kill(pid, signal.SIGKILL)
    until_ended(pid)
    keeper.reap([pid])
    assert is_gone(pid)


def test_a_start_that_a_keeper_does_not_answer_may_have_happened(keeper: Keeper) -> None:
    run(keeper, SLEEP)
    own(keeper).kill()
    with pytest.raises(KeeperError):
        run(keeper, SLEEP)
    run(keeper, SLEEP)
    assert keeper.pid is not None


def test_where_no_keeper_can_run_we_start_programs_ourselves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "subreaper.py"
    broken.write_text("raise SystemExit(1)")
    monkeypatch.setattr(keeper_process, "__file__", str(broken))
    keeper = Keeper({})
    for _ in range(module.TRIES):
        with pytest.raises(KeeperError):
            run(keeper, SLEEP)
    pid = run(keeper, "raise SystemExit(5)")
    assert pid in set(children())
    until_ended(pid)
    assert exit_of(keeper, pid) == Exit(status=5)
    keeper.reap([pid])
    keeper.end()


SUPERVISOR = """
import sys, time
from pallas_supervisor.processes.keeper.client import Keeper
keeper = Keeper({})
keeper.execute([sys.executable, "-ISc", *sys.argv[1:]], {}, [], None)
print(keeper.pid, flush=True)
time.sleep(3600)
"""


def test_when_the_supervisor_is_killed_nothing_of_its_children_is_left(tmp_path: Path) -> None:
    told = tmp_path / "told"
    reader, writer = os.pipe()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", SUPERVISOR, HIDE, str(told)],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)],
    )
    os.close(writer)
    with os.fdopen(reader) as answer:
        keeper = int(answer.readline())
    orphan = int(until_written(told))
    os.kill(keeper, signal.SIGSTOP)  # the kernel wakes it
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    until_ended(keeper)
    assert not psutil.pid_exists(orphan) or psutil.Process(orphan).status() == psutil.STATUS_ZOMBIE
    os.waitpid(keeper, 0)


def test_what_is_packed_is_what_was_wanted() -> None:
    packed = keeper_process.pack(["a", ""], {"B": "c=d", "E": ""}, [7, 9], 9)
    assert packed == b"2 9 7 9\0a\0\0B=c=d\0E=\0"


def test_our_own_children_are_never_certain() -> None:
    assert not THIS_PROCESS.is_certainly_ours(os.getpid())
