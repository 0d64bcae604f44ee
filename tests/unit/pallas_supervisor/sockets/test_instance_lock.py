"""One supervisor for each deployment: the instance lock."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.sockets.instance_lock import AlreadyRunningError, lock_instance
from support.supervisor.processes import nothing_leaked

if TYPE_CHECKING:
    from pathlib import Path


def test_a_second_instance_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    with nothing_leaked():
        held = lock_instance(tmp_path, "demo", tmp_path / "agents.yaml")
        with pytest.raises(
            AlreadyRunningError,
            match=f"demo is running already, as process {os.getpid()}, from {tmp_path}/agents.yaml; ",
        ):
            lock_instance(tmp_path, "demo", tmp_path / "agents.yaml")
        os.close(held)
        again = lock_instance(tmp_path, "demo", tmp_path / "agents.yaml")
        os.close(again)


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, time\n"
        "from pallas_supervisor.sockets.instance_lock import lock_instance\n"
        "held = lock_instance(pathlib.Path(sys.argv[1]), 'demo', pathlib.Path(sys.argv[1]) / 'agents.yaml')\n"
        "print('held', flush=True)\n"
        "time.sleep(3600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyRunningError, match=f"process {process.pid}, .*PALLAS_RUNTIME_DIR"):
            lock_instance(tmp_path, "demo", tmp_path / "agents.yaml")
        process.kill()
        process.wait()
        os.close(lock_instance(tmp_path, "demo", tmp_path / "agents.yaml"))
    assert (tmp_path / "supervisor.lock").read_text() == f"{os.getpid()}\n{tmp_path}/agents.yaml\n"


def test_a_name_that_was_longer_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "supervisor.lock").write_text("123456789012345\n")
    held = lock_instance(tmp_path, "demo", tmp_path / "agents.yaml")
    assert (tmp_path / "supervisor.lock").read_text() == f"{os.getpid()}\n{tmp_path}/agents.yaml\n"
    os.close(held)


def test_the_lock_is_no_childs(tmp_path: Path) -> None:
    held = lock_instance(tmp_path, "demo", tmp_path / "agents.yaml")
    assert not os.get_inheritable(held)
    os.close(held)


def test_a_holder_that_has_not_written_its_name_yet(tmp_path: Path) -> None:
    held = lock_instance(tmp_path, "demo", tmp_path / "agents.yaml")
    os.ftruncate(held, 0)
    with pytest.raises(AlreadyRunningError, match="as another process"):
        lock_instance(tmp_path, "demo", tmp_path / "agents.yaml")
    os.close(held)
