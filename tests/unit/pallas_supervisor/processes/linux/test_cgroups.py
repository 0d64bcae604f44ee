"""Control groups of real processes, in a subtree made for the test; and which subtree may be used at all."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pallas_common.problems import ConfigurationError
from pallas_registry.environment.variables import CGROUP_VARIABLE as VARIABLE
from pallas_supervisor.lifecycle.states import WorkerId
from pallas_supervisor.processes.linux import cgroups
from pallas_supervisor.processes.linux.cgroups import Groups, delegated_groups
from support.fleet.control_groups import groups_of_a_test, needs_control_groups, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWNER = WorkerId("tech-research", 7)
BEARS = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
    print(os.getpid(), flush=True)
    time.sleep(3600)
print(os.getpid(), flush=True)
time.sleep(3600)
"""


@pytest.fixture
def root() -> Iterator[Path]:
    with subtree() as path:
        yield path


@pytest.fixture
def groups() -> Iterator[Groups]:
    with groups_of_a_test() as groups:
        yield groups


def family(path: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A process in a group with two descendants in sessions of their own."""
    join = f"open({str(path / 'cgroup.procs')!r}, 'w').write('0')\n"
    process = subprocess.Popen([sys.executable, "-ISc", join + BEARS], stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, [int(process.stdout.readline()) for _ in range(3)]


@needs_control_groups
def test_a_group_holds_what_a_worker_starts_and_ends_it_at_once(groups: Groups) -> None:
    group = groups.make(OWNER, 2**30)
    other = groups.make(WorkerId("tech", 7), None)
    assert group.path.name == "worker-tech-research.7"
    assert group.is_empty()
    process, pids = family(group.path)
    with process:
        assert all(map(group.holds, pids))
        assert not any(map(other.holds, pids))
        assert not group.holds(os.getpid())
        assert not group.is_empty()
        group.kill()
        assert process.wait() == -signal.SIGKILL
    while not group.is_empty():
        pass
    assert not group.ran_out_of_memory()
    group.remove()
    other.remove()
    assert not group.path.exists()


@needs_control_groups
def test_groups_that_a_worker_made_go_with_its_own(groups: Groups) -> None:
    group = groups.make(OWNER, None)
    (group.path / "mine" / "inner").mkdir(parents=True)
    process, pids = family(group.path / "mine" / "inner")
    with process:
        assert all(map(group.holds, pids))
        group.kill()
    while not group.is_empty():
        pass
    group.remove()
    assert not group.path.exists()


@needs_control_groups
def test_what_an_earlier_supervisor_left_is_ended_before_anything_is_started(groups: Groups) -> None:
    left = groups.make(OWNER, None)
    process, _ = family(left.path)
    with process:
        groups.end_leftovers()
        assert not left.path.exists()
        assert process.wait() == -signal.SIGKILL
    assert groups.make(OWNER, None).path == left.path


@needs_control_groups
def test_what_an_earlier_supervisor_left_is_found_and_its_name_not_used_again(groups: Groups) -> None:
    empty = groups.make(WorkerId("empty", 1), None)
    busy = groups.make(OWNER, None)
    process, _ = family(busy.path)
    with process:
        assert [group.path for group in groups.leftovers()] == [busy.path]
        assert not empty.path.exists()
        names = [groups.make(OWNER, None).path.name for _ in range(2)]
        assert names == ["worker-tech-research.7.1", "worker-tech-research.7.2"]
        busy.kill()
    while not busy.is_empty():
        pass
    assert groups.make(OWNER, None).path.name == "worker-tech-research.7.3", (
        "it may still be about to be killed"
    )
    assert groups.leftovers() == []


@needs_control_groups
def test_the_subtree_is_entered_and_left_as_it_was(root: Path) -> None:
    """By another process: this one stays where it is."""
    script = f"""
import fcntl
import os
from pathlib import Path
from pallas_supervisor.processes.linux.cgroups import delegated_groups
where = lambda: Path("/proc/self/cgroup").read_text().split("0::")[1].strip()
before = where()
groups = delegated_groups({{"{VARIABLE}": {str(root / "own")!r}}}, [])
print(where() != before and where().endswith("/own/supervisor"))
groups.close()
print(where() == before)
print(not Path({str(root / "own")!r}).exists())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 3, done.stderr


@needs_control_groups
def test_two_supervisors_cannot_share_a_subtree(root: Path) -> None:
    holder = os.open(root, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(ConfigurationError, match="another supervisor uses it; name a cgroup v2 group"):
        delegated_groups({VARIABLE: str(root)}, [])
    os.close(holder)


@pytest.mark.parametrize("path", ["/nowhere/at/all", "{tmp}", "{tmp}/new"])
def test_a_path_that_is_no_group_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"{VARIABLE}: .* cannot be used: .*, or unset it"):
        delegated_groups({VARIABLE: path.format(tmp=tmp_path)}, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("marks", "own", "root"),
    [
        ({"unit": "1"}, "unit", "unit"),
        ({"unit": "1"}, "unit/supervisor", "unit"),
        ({"unit": "1"}, "unit/other", None),
        ({"unit": "0"}, "unit", None),
        ({}, "unit", None),
    ],
)
def test_only_a_group_that_is_marked_as_delegated_is_taken(
    marks: dict[str, str], own: str, root: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mark(path: Path, name: str) -> bytes:
        value = marks.get(str(path.relative_to(tmp_path)))
        if value is None or name != "user.delegate":
            raise OSError(61, "No data available")
        return value.encode()

    (tmp_path / own).mkdir(parents=True)
    monkeypatch.setattr(os, "getxattr", mark)
    found = cgroups._delegated(tmp_path / own)
    assert found == (None if root is None else tmp_path / root)


def test_where_memory_is_accounted_for_a_group_is_bounded(tmp_path: Path) -> None:
    """The kernel's files as a folder: the controller is not to be had everywhere."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "cgroup.subtree_control").touch()
    groups = Groups(tmp_path, os.open(tmp_path, os.O_RDONLY), tmp_path, made=False)
    groups.enter([])
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"
    group = groups.make(OWNER, 2**30)
    bounds = {path.name: path.read_text() for path in group.path.iterdir()}
    assert bounds == {"memory.max": str(2**30), "memory.swap.max": "0", "memory.oom.group": "1"}
    (group.path / "memory.stat").write_text("anon 1000\nfile 5000\nshmem 20\n")
    assert group.memory() == 1020
    (group.path / "memory.swap.current").write_text("3\n")
    assert group.memory() == 1023
    (group.path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 0\n")
    assert not group.ran_out_of_memory()
    (group.path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\n")
    assert group.ran_out_of_memory()
    os.close(groups._lock)
