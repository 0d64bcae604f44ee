"""Which processes a dead worker has left behind."""

from __future__ import annotations

import os

import pytest

from pallas_supervisor.lifecycle.states import WorkerId
from pallas_supervisor.processes.linux.process_tree import THIS_PROCESS
from pallas_supervisor.processes.reaper import Reaper
from pallas_supervisor.processes.worker import LaunchInfo, Worker

NO_PID = 1 << 22
"""Above all that Linux gives. Not 0: that is the session of a process whose leader is in another PID namespace."""


@pytest.mark.parametrize(("starting", "is_stray"), [(False, True), (True, False)])
def test_a_worker_that_is_being_started_is_no_stray_of_another(starting: bool, is_stray: bool) -> None:
    """Its process bears its title before the zygote's answer says which process it is."""
    reaper = Reaper({}, None, THIS_PROCESS)
    dead = Worker(WorkerId("dead", 1), pid=NO_PID, pidfd=-1, launch_info=LaunchInfo())
    new = WorkerId("new", 1)
    if starting:
        reaper.starting.add(new)
    assert reaper._belongs(dead, os.getpid(), new) == is_stray
