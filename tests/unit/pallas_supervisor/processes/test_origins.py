"""Which processes come from workers: with real ones, below a process that stands for the keeper."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.processes.keeper.predecessor import VARIABLE
from pallas_supervisor.processes.linux import procfs
from pallas_supervisor.processes.linux.process_tree import ProcessParent
from pallas_supervisor.processes.origins import Origins

if TYPE_CHECKING:
    from collections.abc import Iterator

NESTED = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
"""A process that waits, below one that waits for it."""


class Below(ProcessParent):
    """A parent between this process and its workers, as the keeper is one."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    @property
    def pid(self) -> int:
        return self._pid

    def pids(self) -> set[int]:
        return set()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A child of ours that has one itself."""
    with subprocess.Popen(
        [sys.executable, "-c", NESTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
        process.communicate(b"\n")


def grandchild_of(process: subprocess.Popen[bytes]) -> int:
    tasks = f"/proc/{process.pid}/task/{process.pid}/children"
    with open(tasks) as file:  # noqa: PTH123
        return int(file.read().split()[0])


def test_what_is_below_the_keeper_is_from_workers(child: subprocess.Popen[bytes]) -> None:
    origins = Origins(Below(child.pid), None)
    assert origins.is_from_workers(child.pid)
    assert origins.is_from_workers(grandchild_of(child))
    assert not origins.is_from_workers(os.getpid())
    assert not origins.is_from_workers(os.getppid())


def test_children_that_were_there_before_are_not(child: subprocess.Popen[bytes]) -> None:
    below = grandchild_of(child)
    assert not Origins(ProcessParent(), None).is_from_workers(below), (
        "say of a shell that became the supervisor"
    )
    assert Origins(ProcessParent(), None, zygote=child.pid).is_from_workers(below)


def test_without_a_keeper_later_children_are() -> None:
    origins = Origins(ProcessParent(), None)
    with subprocess.Popen(["sleep", "60"]) as process:
        assert origins.is_from_workers(process.pid)
        process.kill()


def test_a_mark_of_this_run_is_known_wherever_its_process_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "the-word-of-this-run")
    command = [sys.executable, "-c", "print(1, flush=True); input()"]
    for word, expected in (("the-word-of-this-run", True), ("another-word", False)):
        with subprocess.Popen(
            command, env={VARIABLE: word}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            # It was there before, so that its place in the tree says nothing.
            assert Origins(ProcessParent(), None).is_from_workers(process.pid) == expected
            process.communicate(b"\n")


def test_one_that_cannot_be_seen_counts_as_from_workers() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert procfs.ancestors(process.pid) is None
    assert Origins(ProcessParent(), None).is_from_workers(process.pid)
