"""What is known of one worker process while it lives, and of one that is about to. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_common.protocol.spec import EXIT_OUT_OF_MEMORY
from pallas_supervisor.lifecycle.states import OUT_OF_MEMORY

if TYPE_CHECKING:
    from pallas_supervisor.lifecycle.states import Exit, WorkerId
    from pallas_supervisor.processes.linux.cgroups import WorkerGroup


@dataclass(slots=True)
class LaunchInfo:
    """What is known of a worker before there is a process."""

    memory_limit: int | None = None
    """Bytes."""
    group: WorkerGroup | None = None
    pipes: frozenset[str] = frozenset()
    """What it may hand down to its children, as `procfs.pipes` names it."""
    at: float = 0.0
    """When the process was asked for, in seconds since the epoch; it may have been forked ahead."""
    ticks: int = 0
    """The same in the clock ticks of `procfs.now`: what was forked before has not been started by the worker."""


@dataclass(slots=True)
class Worker:
    """One live process. `pidfd` stays open until all that it has started is gone."""

    id: WorkerId
    pid: int
    pidfd: int
    launch_info: LaunchInfo
    reason: str | None = None
    """Why it was killed."""
    group_empty: bool = False
    """Its process group was seen empty; the group's number may have been given to another since."""


def reason_of(worker: Worker, exit_: Exit) -> str | None:
    """Why the worker ended, where its exit does not say it."""
    group, limited = worker.launch_info.group, worker.launch_info.memory_limit is not None
    ended_itself = limited and exit_.status == EXIT_OUT_OF_MEMORY
    if ended_itself or (group is not None and group.ran_out_of_memory()):
        return OUT_OF_MEMORY
    return worker.reason
