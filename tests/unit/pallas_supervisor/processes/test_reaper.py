"""Which processes a dead worker has left behind."""

from __future__ import annotations

import os
import subprocess

import pytest

from pallas_supervisor.lifecycle.states import WorkerId
from pallas_supervisor.processes.linux.process_tree import THIS_PROCESS, owner_of
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


@pytest.mark.parametrize(("starting", "is_stray"), [(False, True), (True, False)])
def test_one_that_has_ended_may_be_what_is_being_started(starting: bool, is_stray: bool) -> None:
    """It has no title any more; reaped for another one's stray, its start would say that there is no such process."""
    dead = Worker(WorkerId("dead", 1), pid=NO_PID, pidfd=-1, launch_info=LaunchInfo())
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert owner_of(process.pid) is None
        reaper = Reaper({}, None, THIS_PROCESS)
        if starting:
            reaper.starting.add(WorkerId("new", 1))
        assert reaper._belongs(dead, process.pid, None) == is_stray
