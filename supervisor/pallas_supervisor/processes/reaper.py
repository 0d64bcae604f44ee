"""Ending and reaping what workers and the zygote have left behind, and nothing of anybody else's.

Knows processes by control group, session, sign and pipes; nothing of agents' states.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_supervisor.processes.linux import procfs
from pallas_supervisor.processes.linux.process_tree import (
    NASCENT,
    Offspring,
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

SWEEP_INTERVALS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Seconds between looks whether a group is empty; the last one repeats."""


class Reaper:
    """Knows whose each process is.

    Args:
        workers: all live ones; looked at anew each time.
        zygote: None where there is none.
        offspring: below which all of them are.
    """

    def __init__(
        self, workers: Mapping[WorkerId, Worker], zygote: Zygote | None, offspring: Offspring
    ) -> None:
        self._workers = workers
        self._zygote = zygote
        self._offspring = offspring
        # Children that this process had before it became the supervisor, say of a shell's `exec pallas`.
        self._foreign = frozenset(children()) - {offspring.pid}

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
        reap_zombies(self._known(), self._offspring)

    def is_clean(self, worker: Worker) -> bool:
        """Kill what is left of the worker's group and strays, and say whether nothing was.

        Raises:
            OSError: no descriptor is left to look with.
        """
        group = worker.launch_info.group
        if group is not None:
            group.kill()
        worker.group_empty = worker.group_empty or kill_group(worker.pid, self._offspring)
        strays_gone = kill_strays(
            self._known(), lambda pid, whose: self._belongs(worker, pid, whose), self._offspring
        )
        return worker.group_empty and strays_gone and (group is None or group.is_empty())

    def _belongs(self, worker: Worker, pid: int, whose: WorkerId | None) -> bool:
        """Whether an adopted process is what `worker` has left behind.

        A control group tells exactly. Without one, a process that bears the sign of nobody who lives belongs to the
        worker whose session or pipes it has inherited, or else may belong to any that was there before it.
        """
        session = session_of(pid)
        if whose == worker.id or session == worker.pid:
            return True
        if worker.launch_info.group is not None:
            return worker.launch_info.group.holds(pid)
        if whose == NASCENT or whose in self._workers:
            return False
        inherited = procfs.pipes(pid)
        others = [other for other in self._workers.values() if other is not worker]
        if any(session == other.pid or inherited & other.launch_info.pipes for other in others):
            return False
        begun = procfs.started(pid)
        return begun is None or begun >= worker.launch_info.ticks

    async def kill_unclaimed(self, *worker_ids: WorkerId) -> None:
        """Kill what bears the sign of these and is no worker that we know."""
        for interval in SWEEP_INTERVALS:
            if kill_strays(self._known(), lambda _pid, whose: whose in worker_ids, self._offspring):
                return
            await asyncio.sleep(interval)

    async def end(self) -> None:
        """End the zygote, what it has forked ahead, and all that any agent has left behind, whatever it claims to be.

        For a supervisor that has no worker any more.

        Raises:
            OSError: no descriptor is left to look with.
        """
        ahead = self._ahead()
        if self._zygote is not None:
            await self._zygote.end()
        ahead |= self._ahead()
        for interval in SWEEP_INTERVALS * 10:
            clean = kill_strays(self._known(), self._is_ours, self._offspring)
            self.reap()
            if clean and ahead.isdisjoint(self._offspring.pids()):
                return
            await asyncio.sleep(interval)

    def _is_ours(self, pid: int, whose: WorkerId | None) -> bool:
        return whose is not None or self._offspring.is_certain(pid)

    def _ahead(self) -> set[int]:
        """What the zygote has forked and is nobody's worker yet."""
        return {pid for pid in self._offspring.pids() - self._known() if owner_of(pid) == NASCENT}
