"""Signals that others send for reasons of their own end no process of a deployment, and reopen its log."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import psutil

from pallas_common.processes.signals import ORDINARY
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path


def test_no_ordinary_signal_ends_a_process_and_the_log_follows_its_name(tmp_path: Path) -> None:
    with Fleet(make_deployment(tmp_path / "fleet", "one")) as fleet:
        fleet.wait()
        worker = fleet.agent("one")["pid"]
        supervisor = psutil.Process(fleet.pid)
        all_ = {process.pid: " ".join(process.cmdline()) for process in supervisor.children(recursive=True)}
        lasting = {
            pid for pid, title in all_.items() if not title.startswith(("pallas-worker", "pallas-spare"))
        }
        fleet.log_file.rename(fleet.log_file.with_suffix(".old"))
        for pid in (fleet.pid, *all_):
            for number in (*ORDINARY, signal.SIGWINCH):
                os.kill(pid, number)
        assert fleet.agent("one")["pid"] == worker
        assert fleet.ctl("restart", "one").returncode == 0  # all have had their turn by then
        assert fleet.ctl("stop", "one").returncode == 0
        assert lasting <= {process.pid for process in supervisor.children(recursive=True)}
        fleet.await_that(
            lambda: (
                fleet.log_file.exists()
                and any(record["message"] == "one: stopping -> stopped" for record in fleet.written())
            ),
            "the file of the log's name has what came after",
        )
