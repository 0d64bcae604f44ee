"""A subtree of control groups for a test, where this machine lets us have one."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.processes.linux.cgroups import Groups

if TYPE_CHECKING:
    from collections.abc import Iterator


def _mount() -> Path | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return Path(before.split()[4])
    return None


MOUNT = _mount()

AVAILABLE = MOUNT is not None and os.access(MOUNT, os.W_OK) and os.access(MOUNT / "cgroup.procs", os.W_OK)

needs_control_groups = pytest.mark.skipif(
    not AVAILABLE and os.environ.get("PALLAS_REQUIRE_PEERS") != "1",
    reason="not run: needs a cgroup2 mount that this user may write to, as root has",
)
"""For tests in a `subtree`; with PALLAS_REQUIRE_PEERS=1 they run, and fail, without one."""


@contextmanager
def subtree() -> Iterator[Path]:
    """A group of its own, which has to be empty of groups and processes in the end."""
    assert MOUNT is not None, "there is no cgroup2 mount here"
    path = Path(tempfile.mkdtemp(prefix="pallas-test-", dir=MOUNT))
    try:
        yield path
    finally:
        left = sorted(str(below.relative_to(path)) for below in path.rglob("*") if below.is_dir())
        _remove(path)
        assert not left, f"these groups were left: {', '.join(left)}"


def _remove(path: Path) -> None:
    """Kill what is in a group and in those below it, and remove them."""
    (path / "cgroup.kill").write_text("1")
    while "populated 1" in (path / "cgroup.events").read_text():
        time.sleep(0.005)
    for below in sorted((below for below in path.rglob("*") if below.is_dir()), reverse=True):
        below.rmdir()
    path.rmdir()


@contextmanager
def groups_of_a_test() -> Iterator[Groups]:
    """The groups of a supervisor in a subtree; the test's process stays outside."""
    with subtree() as root:
        groups = Groups(root, os.open(root, os.O_RDONLY), root, made=False)
        try:
            yield groups
        finally:
            groups.close()
