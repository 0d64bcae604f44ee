"""Ending and reaping what workers and the zygote have left behind, and no other process.

Knows processes by control group, session, title, environment and pipes; nothing of agents' states.

Which worker a stray process belongs to has several answers, because none holds everywhere:

- Its process group is not enough: whatever opens a session of its own (a daemon) leaves it.
- Its parent is not kept: once the parent is dead, the process is a child of the keeper, as all strays are.
- A control group says it exactly, but is there only where a subtree has been delegated.
- A title or an environment variable says it where it has not been cleaned, and a session where it has not been left.
- Pipes shared with another living worker, or an earlier start than the worker's, say that it is not the worker's.

Where none of these says anything, a process ends with the next worker that ends and is older.
When the supervisor itself ends, that does not matter: it ends every child of the keeper, which has none but these.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_supervisor.processes.linux import procfs
from pallas_supervisor.processes.linux.process_tree import (
    UNASSIGNED,
    ProcessParent,
    children,
    kill_group,
    kill_strays,
    owner_of,
    reap_zombies,
    session_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_supervisor.lifecycle.states import WorkerId
    from pallas_supervisor.processes.worker import Worker
    from pallas_supervisor.processes.zygote_client import Zygote

REAP_INTERVALS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Seconds between looks whether a group is empty; the last one repeats."""


class Reaper:
    """Knows which worker each process belongs to.

    Args:
        workers: all live ones; looked at anew each time.
        zygote: None where there is none.
        parent: of all of them.
    """

    def __init__(
        self, workers: Mapping[WorkerId, Worker], zygote: Zygote | None, parent: ProcessParent
    ) -> None:
        self._workers = workers
        self._zygote = zygote
        self._parent = parent
        self.starting: set[WorkerId] = set()
        """Workers that are being started: their processes may be there before we know which they are."""
        # Children that this process had before it became the supervisor, say of a shell's `exec pallas`.
        self._foreign = frozenset(children()) - {parent.pid}

    def _known(self) -> set[int]:
        known = {worker.pid for worker in self._workers.values()} | self._foreign
        if self._zygote is not None and self._zygote.pid is not None:
            known.add(self._zygote.pid)
        return known

    def reap(self) -> None:
        """Reap adopted processes that have ended.

        Raises:
            OSError: no descriptor is left to look with.
        """
        reap_zombies(self._known(), self._parent)

    def clean_up(self, worker: Worker) -> bool:
        """Kill what is left of the worker's group and strays, and say whether nothing was.

        Raises:
            OSError: no descriptor is left to look with.
        """
        group = worker.launch_info.group
        if group is not None:
            group.kill()
        worker.group_empty = worker.group_empty or kill_group(worker.pid, self._parent)
        strays_gone = kill_strays(
            self._known(), lambda pid, owner: self._belongs(worker, pid, owner), self._parent
        )
        return worker.group_empty and strays_gone and (group is None or group.is_empty())

    def _belongs(self, worker: Worker, pid: int, owner: WorkerId | None) -> bool:
        """Whether an adopted process is what `worker` has left behind; see above.

        Args:
            owner: what its title or its environment says.
        """
        session = session_of(pid)
        if owner == worker.id or session == worker.pid:
            return True
        if worker.launch_info.group is not None:
            return worker.launch_info.group.holds(pid)
        if owner == UNASSIGNED or owner in self._workers or owner in self.starting:
            return False
        if owner is None and self.starting and procfs.is_ending(pid):
            # It may be what is being started and has failed at once. Who starts it has to find it, and its exit
            # status; if it is nobody's, it is reaped with all that have ended once nothing is being started.
            return False
        inherited = procfs.pipes(pid)
        others = [other for other in self._workers.values() if other is not worker]
        if any(session == other.pid or inherited & other.launch_info.pipes for other in others):
            return False
        begun = procfs.started(pid)
        return begun is None or begun >= worker.launch_info.ticks

    async def kill_unclaimed(self, *worker_ids: WorkerId) -> None:
        """Kill what says that it is one of these workers, or descends from one, and is no worker that we know."""
        for interval in REAP_INTERVALS:
            if kill_strays(self._known(), lambda _pid, owner: owner in worker_ids, self._parent):
                return
            await asyncio.sleep(interval)

    async def end_all(self) -> None:
        """End the zygote, what it has forked ahead, and all that any agent has left behind, whatever its title says.

        For a supervisor that has no worker any more.

        Raises:
            OSError: no descriptor is left to look with.
        """
        ahead = self._forked_ahead()
        if self._zygote is not None:
            await self._zygote.end()
        ahead |= self._forked_ahead()
        for interval in REAP_INTERVALS * 10:
            clean = kill_strays(self._known(), self._is_ours, self._parent)
            self.reap()
            if clean and ahead.isdisjoint(self._parent.pids()):
                return
            await asyncio.sleep(interval)

    def _is_ours(self, pid: int, owner: WorkerId | None) -> bool:
        return owner is not None or self._parent.is_certainly_ours(pid)

    def _forked_ahead(self) -> set[int]:
        """What the zygote has forked and is no worker yet."""
        return {pid for pid in self._parent.pids() - self._known() if owner_of(pid) == UNASSIGNED}
