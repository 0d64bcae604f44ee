"""A control group for each worker, where this process was given a subtree of its own (cgroup v2 delegation).

Knows the files of cgroups(7); nothing of agents' states. The supervisor and the zygote live in a leaf of their own
beside the workers', because a group that hands out controllers may not hold processes itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.problems import ConfigurationError, Problem
from pallas_registry.environment.variables import CGROUP_VARIABLE, control_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pallas_supervisor.lifecycle.states import WorkerId

LEFTOVERS_PATIENCE = 5.0
"""Seconds that killed processes may take to disappear."""

OWN_LEAF = "supervisor"
_WORKERS_LEAF = re.compile(r"worker-[A-Za-z0-9_-]+\.[0-9]+(\.[0-9]+)?")
_DELEGATION_MARKS = ("user.delegate", "trusted.delegate")
"""Extended attributes with which systemd marks the group of a unit that has `Delegate=`."""

_log = get_logger("pallas.supervisor.cgroups")


class WorkerGroup:
    """One worker's group; whatever the worker starts is in it, wherever it goes."""

    def __init__(self, path: Path, known_as: str) -> None:
        self.path = path
        self._known_as = known_as

    def holds(self, pid: int) -> bool:
        """Whether a process, dead or alive, is in the group or in one below it."""
        name = _group_of(pid)
        return name is not None and f"{name}/".startswith(f"{self._known_as}/")

    def kill(self) -> None:
        """SIGKILL all that is in the group at once; nothing can fork its way out."""
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def is_empty(self) -> bool:
        """Whether no process lives in the group."""
        return _fields(self.path / "cgroup.events").get("populated", 0) == 0

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has killed something in the group for its memory."""
        return _fields(self.path / "memory.events").get("oom_kill", 0) > 0

    def memory(self) -> int:
        """Bytes that the group's processes hold and that no file backs; 0 without the memory controller."""
        held = _fields(self.path / "memory.stat")
        with contextlib.suppress(OSError, ValueError):
            return held.get("anon", 0) + held.get("shmem", 0) + int(_read(self.path / "memory.swap.current"))
        return held.get("anon", 0) + held.get("shmem", 0)

    def remove(self) -> None:
        """Remove the empty group, and those that the worker made below it."""
        _remove_tree(self.path)


class Groups:
    """The subtree of this supervisor.

    Args:
        root: the group that was delegated, held by `lock` for as long as this process lives.
        origin: where this process was before.
        made: whether the root is ours to remove.
    """

    def __init__(self, root: Path, lock: int, origin: Path, *, made: bool) -> None:
        self.root = root
        self._lock = lock
        self._origin = origin
        self._made = made
        self._bounds_memory = False

    def enter(self, pids: Iterable[int]) -> None:
        """Move these processes into the supervisor's own leaf.

        Raises:
            OSError: the subtree is not ours after all.
        """
        leaf = self.root / OWN_LEAF
        leaf.mkdir(exist_ok=True)
        _move(pids, leaf)
        if "memory" in _read(self.root / "cgroup.controllers").split():
            with contextlib.suppress(OSError):
                (self.root / "cgroup.subtree_control").write_text("+memory")
                self._bounds_memory = True

    def make(self, worker_id: WorkerId, memory_limit: int | None) -> WorkerGroup:
        """A group for a worker that is about to start.

        Raises:
            OSError: it cannot be made.
        """
        # A name that an earlier supervisor has left is never used again: what bears it is to be killed.
        for suffix in ("", *(f".{number}" for number in range(1, 100))):
            path = self.root / f"worker-{worker_id.name}.{worker_id.generation}{suffix}"
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                break
        else:
            raise FileExistsError(17, "too many groups of its name are left", str(path))
        if self._bounds_memory and memory_limit is not None:
            for file, value in (("max", memory_limit), ("swap.max", 0), ("oom.group", 1)):
                with contextlib.suppress(FileNotFoundError):  # swap may not be accounted
                    (path / f"memory.{file}").write_text(str(value))
        return WorkerGroup(path, f"{_known_as(self.root)}/{path.name}")

    def hold(self, pid: int) -> bool:
        """Whether a process, dead or alive, is in the group of a worker."""
        name = _group_of(pid)
        root = f"{_known_as(self.root)}/"
        return name is not None and name.startswith(root) and _in_a_workers_leaf(name.removeprefix(root))

    def leftovers(self) -> list[WorkerGroup]:
        """Groups of workers that an earlier supervisor left behind and that hold something; others are removed."""
        found = []
        for path in self.root.iterdir():
            if path.is_dir() and _WORKERS_LEAF.fullmatch(path.name):
                group = WorkerGroup(path, f"{_known_as(self.root)}/{path.name}")
                if group.is_empty():
                    group.remove()
                else:
                    found.append(group)
        return found

    def end_leftovers(self) -> None:
        """Kill what an earlier supervisor has left in groups of its workers. Blocks for it."""
        left = self.leftovers()
        deadline = time.monotonic() + LEFTOVERS_PATIENCE
        for group in left:
            group.kill()
        for group in left:
            while not group.is_empty() and time.monotonic() < deadline:
                time.sleep(0.002)
            group.remove()

    def close(self) -> None:
        """Leave the subtree as it was found, except for groups that still hold a process."""
        self.leftovers()
        with contextlib.suppress(OSError):
            if self._bounds_memory:
                (self.root / "cgroup.subtree_control").write_text("-memory")
            _move(_members(self.root / OWN_LEAF), self._origin)
        _remove_tree(self.root / OWN_LEAF)
        if self._made:
            with contextlib.suppress(OSError):
                self.root.rmdir()
        os.close(self._lock)


def delegated_groups(environ: Mapping[str, str], pids: Iterable[int]) -> Groups | None:
    """The subtree that this supervisor may use, entered by it and by `pids`; None if there is none.

    Raises:
        ConfigurationError: `PALLAS_CGROUP` names something that cannot be used.
    """
    named = control_group(environ)
    try:
        own = _own_group()
        if named:
            if own is None:
                raise FileNotFoundError(2, "there are no control groups of version 2 here")
            return _take(named, own, pids)
        root = None if own is None else _delegated(own)
        if root is None or own is None:
            return None
        return _take(root, own, [*pids, *_members(root)])
    except OSError as error:
        if named:
            remedy = "name a cgroup v2 group that this user may write to and nobody else uses, or unset it"
            problem = Problem(
                "environment", None, CGROUP_VARIABLE, f"{named} cannot be used: {error.strerror}", remedy
            )
            raise ConfigurationError([problem]) from error
        _log.warning(f"the control group cannot be used, workers do not get groups of their own: {error}")
        return None


def _take(root: Path, origin: Path, pids: Iterable[int]) -> Groups:
    mount = _mount_point()
    if mount is None or not root.resolve().is_relative_to(mount):
        raise FileNotFoundError(2, "it is no control group of version 2")
    made = not root.exists()
    if made:
        root.mkdir()
    lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    groups = Groups(root, lock, origin, made=made)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileExistsError(17, "another supervisor uses it") from None
        groups.enter([os.getpid(), *pids])
    except OSError:
        if made:
            groups.close()
        else:
            os.close(lock)
        raise
    return groups


def _own_group() -> Path | None:
    """Where this process is in the mounted hierarchy of version 2, if there is one."""
    name = _group_of(os.getpid())
    mount = _mount_point()
    return None if name is None or mount is None else mount / name.lstrip("/")


def _delegated(own: Path) -> Path | None:
    """The group that a service manager has handed over: ours, or the one above the leaf that it put us into."""
    for path in (own, own.parent) if own.name == OWN_LEAF else (own,):
        for mark in _DELEGATION_MARKS:
            with contextlib.suppress(OSError):
                if os.getxattr(path, mark) == b"1" and os.access(path, os.W_OK):
                    return path
    return None


def _mount_point() -> Path | None:
    for line in _read(Path("/proc/self/mountinfo")).splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return Path(before.split()[4].encode().decode("unicode_escape"))
    return None


def _group_of(pid: int) -> str | None:
    """The name of a process's group, as in `/system.slice/pallas.service`."""
    with contextlib.suppress(OSError):
        for line in _read(Path("/proc", str(pid), "cgroup")).splitlines():
            if line.startswith("0::"):
                return line[3:].removesuffix(" (deleted)")
    return None


def _in_a_workers_leaf(below: str) -> bool:
    return _WORKERS_LEAF.fullmatch(below.partition("/")[0]) is not None


def _known_as(path: Path) -> str:
    """What `_group_of` calls the group at a path."""
    mount = _mount_point()
    return "/" + os.path.relpath(path.resolve(), mount) if mount is not None else str(path)


def _read(path: Path) -> str:
    return path.read_text()


def _fields(path: Path) -> dict[str, int]:
    """A file of `name number` lines; empty if there is no such file."""
    with contextlib.suppress(OSError, ValueError):
        return {name: int(value) for name, value in (line.split() for line in _read(path).splitlines())}
    return {}


def _members(path: Path) -> list[int]:
    try:
        return [int(pid) for pid in _read(path / "cgroup.procs").split()]
    except OSError:
        return []


def _move(pids: Iterable[int], into: Path) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            (into / "cgroup.procs").write_text(str(pid))


def _remove_tree(path: Path) -> None:
    with contextlib.suppress(OSError):
        for below in path.iterdir():
            if below.is_dir():
                _remove_tree(below)
    with contextlib.suppress(OSError):
        path.rmdir()
