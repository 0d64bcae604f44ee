"""Whose a process is, how it ended, and that nothing of a group or of strays is left. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pallas_common.processes.tree import OWNER_VARIABLE
from pallas_supervisor.lifecycle.states import Exit, WorkerId
from pallas_supervisor.processes.linux import process_tree
from pallas_supervisor.processes.linux.process_tree import (
    THIS_PROCESS,
    UNASSIGNED,
    kill_group,
    kill_strays,
    owner_of,
    pidfd_of,
    reap_zombies,
    send_signal,
    session_of,
)
from support.supervisor.processes import is_gone, nothing_leaked, subreaper, until_written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with nothing_leaked(), subreaper():
        yield


def sleeper(*, title: str = "sleeper", env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A process in a session of its own, whose whole command line is `title`, that is up."""
    process = subprocess.Popen(
        [title],
        executable=sys.executable,
        env={**os.environ, **(env or {})},
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write(b"import time\nprint('up', flush=True)\ntime.sleep(3600)\n")
        process.stdin.close()
        process.stdout.readline()
    return process


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("title", "env", "owner"),
    [
        ("pallas-worker research 3 [demo]", {}, WorkerId("research", 3)),
        ("pallas-gateway 2 [demo]", {}, WorkerId("@gateway", 2)),
        ("pallas-gateway", {}, UNASSIGNED),
        ("something-else", {OWNER_VARIABLE: "@gateway/2"}, WorkerId("@gateway", 2)),
        ("pallas-zygote", {}, UNASSIGNED),
        ("pallas-wor", {}, UNASSIGNED),
        ("pallas-worker research", {}, UNASSIGNED),
        ("pallas-worker research 1", {}, UNASSIGNED),
        ("something-else", {}, None),
        ("something-else", {OWNER_VARIABLE: "tech_research/12"}, WorkerId("tech_research", 12)),
        ("something-else", {OWNER_VARIABLE: "research"}, None),
        ("pallas-worker research 3 [demo]", {OWNER_VARIABLE: "jarvis/1"}, WorkerId("research", 3)),
    ],
)
def test_owner(title: str, env: dict[str, str], owner: WorkerId | None) -> None:
    process = sleeper(title=title, env=env)
    try:
        assert owner_of(process.pid) == owner
    finally:
        ended(process)


def test_owner_of_a_process_that_is_gone() -> None:
    process = sleeper()
    ended(process)
    assert owner_of(process.pid) is None
    assert session_of(process.pid) is None


def test_exit_is_seen_without_reaping() -> None:
    process = subprocess.Popen([sys.executable, "-ISc", "raise SystemExit(78)"])
    descriptor = pidfd_of(process.pid)
    os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT)
    assert (
        THIS_PROCESS.exit_of(process.pid, descriptor)
        == THIS_PROCESS.exit_of(process.pid, descriptor)
        == Exit(status=78)
    )
    assert process.wait() == 78
    os.close(descriptor)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_exit_by_a_signal(number: signal.Signals) -> None:
    process = sleeper()
    descriptor = pidfd_of(process.pid)
    assert THIS_PROCESS.exit_of(process.pid, descriptor) is None
    send_signal(descriptor, number)
    os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT)
    assert THIS_PROCESS.exit_of(process.pid, descriptor) == Exit(signal=number)
    process.wait()
    send_signal(descriptor, number)
    os.close(descriptor)


def test_a_child_that_cannot_be_watched_does_not_live(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(_pid: int) -> int:
        raise OSError(24, "Too many open files")

    process = sleeper()
    monkeypatch.setattr(os, "pidfd_open", exhausted)
    with pytest.raises(OSError, match="Too many open files"):
        pidfd_of(process.pid)
    assert is_gone(process.pid)
    process.returncode = -9


STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
{}
with open(sys.argv[1], "a") as file:
    file.write(f"{{os.getpid()}}\\n")
time.sleep(3600)
"""


def family(tmp_path: Path, before: str) -> tuple[subprocess.Popen[bytes], int]:
    """A worker and a grandchild that does `before` and then ignores every polite request."""
    told = tmp_path / "grandchild"
    stubborn = STUBBORN.format(before)
    script = f"import os, sys, time\nif os.fork() == 0:\n    exec({stubborn!r})\ntime.sleep(3600)\n"
    process = subprocess.Popen([sys.executable, "-ISc", script, str(told)], start_new_session=True)
    return process, int(until_written(told))


def until_empty(group: int) -> None:
    while not kill_group(group):
        pass


def test_a_group_is_killed_and_reaped_with_all_that_is_in_it(tmp_path: Path) -> None:
    process, grandchild = family(tmp_path, "")
    until_empty(process.pid)
    assert is_gone(process.pid)
    assert is_gone(grandchild)
    assert kill_group(process.pid), "of an empty group nothing is left"
    process.returncode = -9


def test_strays_in_sessions_of_their_own_are_found_by_their_environment(tmp_path: Path) -> None:
    process, stray = family(tmp_path, f"os.setsid(); os.environ['{OWNER_VARIABLE}'] = 'research/1'")
    until_empty(process.pid)
    process.returncode = -9
    assert not is_gone(stray)
    assert kill_strays(set(), lambda _pid, owner: owner == WorkerId("jarvis", 1)), "it is somebody else's"
    assert not is_gone(stray)
    while not kill_strays(set(), lambda pid, _owner: pid == stray):
        pass
    assert is_gone(stray)


def test_children_of_a_stray_are_looked_for_as_well(tmp_path: Path) -> None:
    told = tmp_path / "strays"
    fork_on = "os.setsid(); os.fork() == 0 and os.setsid(); os.fork() == 0 and os.setsid()"
    process = subprocess.Popen(
        [
            sys.executable,
            "-ISc",
            f"import os\nif os.fork() == 0:\n    exec({STUBBORN.format(fork_on)!r})\nos._exit(0)",
            str(told),
        ],
        start_new_session=True,
    )
    while len(until_written(told).split()) < 4:
        pass
    strays = [int(pid) for pid in told.read_text().split()]
    process.wait()
    while not kill_strays(set(), lambda pid, _owner: session_of(pid) in strays or pid in strays):
        pass
    assert all(map(is_gone, strays))


def test_another_look_is_asked_for_while_there_was_a_stray(tmp_path: Path) -> None:
    process, stray = family(tmp_path, "os.setsid()")
    until_empty(process.pid)
    process.returncode = -9
    os.kill(stray, signal.SIGKILL)
    os.waitid(os.P_PID, stray, os.WEXITED | os.WNOWAIT)
    assert not kill_strays(set(), lambda pid, _owner: pid == stray), "its children may just have been adopted"
    assert is_gone(stray)
    assert kill_strays(set(), lambda pid, _owner: pid == stray)


def test_known_processes_are_never_strays() -> None:
    others = set(process_tree.children())  # of this test process, which are nobody's strays either
    process = sleeper()
    assert kill_strays({process.pid, *others}, lambda _pid, _owner: True)
    assert process.poll() is None
    ended(process)


def test_zombies_are_reaped_unless_known() -> None:
    mine, other = (subprocess.Popen([sys.executable, "-ISc", ""]) for _ in range(2))
    for process in (mine, other):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    reap_zombies({mine.pid})
    assert not is_gone(mine.pid)
    assert is_gone(other.pid)
    mine.wait()
    other.returncode = 0


def test_orphans_are_adopted(tmp_path: Path) -> None:
    process, orphan = family(tmp_path, "os.setsid()")
    assert orphan not in process_tree.children()
    process.kill()
    process.wait()
    assert orphan in process_tree.children()
    while not kill_strays(set(), lambda pid, _owner: pid == orphan):
        pass
