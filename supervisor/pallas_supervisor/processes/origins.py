"""Whether a process comes from a worker or from the zygote: who may not use the control socket.

Knows the process tree, environments and control groups. Each of them is left by some processes, so that one is enough:

- What has left its session and lost its parent is a child of the keeper, or of this process where a keeper was lost.
- The environment says it of what an earlier keeper had below it, unless it was cleaned.
- A control group says it of whatever was started in it, where workers have groups.

Where `/proc` hides the processes of other users, what is above one of them is not known, and not asked: an agent has
become another user only by a program that `NoNewPrivileges` of the unit keeps it from using, and root is beyond this.

A process that another service of the same user has started for an agent comes from that service: between agents of one
user and the rest of that user there are no walls.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pallas_supervisor.processes.keeper.predecessor import VARIABLE
from pallas_supervisor.processes.linux import procfs
from pallas_supervisor.processes.linux.process_tree import children

if TYPE_CHECKING:
    from pallas_supervisor.processes.linux.cgroups import Groups
    from pallas_supervisor.processes.linux.process_tree import ProcessParent

LOOKS = 20
"""Tries to see all that is above a process: between two looks one of them may end, and its children move."""


class Origins:
    """Tells where processes come from.

    Args:
        parent: of workers and zygote.
        groups: where workers have control groups of their own.
        zygote: its process ID, if there is one.
    """

    def __init__(self, parent: ProcessParent, groups: Groups | None, zygote: int | None = None) -> None:
        self._parent = parent
        self._groups = groups
        # Children that this process had before it became the supervisor, say of a shell's `exec pallas`.
        self._foreign = frozenset(children()) - {parent.pid, zygote}

    def is_from_workers(self, pid: int) -> bool:
        """Whether the process is a worker or the zygote, or descends from one; also where that cannot be seen.

        Raises:
            OSError: no descriptor is left to look with.
        """
        for _ in range(LOOKS):
            if (above := procfs.ancestors(pid)) is not None:
                return self._is_below_workers(above) or self._bears_a_mark(above)
        return True

    def _is_below_workers(self, above: tuple[int, ...]) -> bool:
        own = os.getpid()
        if own not in above:
            return False
        below_us = set(above[: above.index(own)])
        return not below_us.isdisjoint({self._parent.pid, *self._parent.pids()} - self._foreign)

    def _bears_a_mark(self, above: tuple[int, ...]) -> bool:
        if self._groups is not None and self._groups.hold(above[0]):
            return True
        word, own = os.environ.get(VARIABLE), os.getpid()
        return word is not None and any(
            procfs.has_variable(each, VARIABLE, word) for each in above if each != own
        )
