"""Files and variables that nobody should have, met by a real supervisor: it refuses them and goes on serving."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet, run_to_end
from support.fleet.process_tree import proportional_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = ["agents.yaml", ".env", "fastagent.config.yaml", "fastagent.secrets.yaml"]

KEY = "sk-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("fleet"), "one")
    deployment.agents["one"]["env"] = {"SERVICE": KEY}
    deployment.write()
    with Fleet(deployment) as running:
        running.wait("one")
        yield running


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_in_place_of_a_file_is_refused_at_a_reload_and_nobody_waits_for_it(
    fleet: Fleet, name: str
) -> None:
    path = fleet.deployment.directory / name
    before = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    try:
        reload = fleet.ctl("reload")
        assert reload.returncode == 1
        assert f"{path}: is a pipe, not a file; " in reload.stderr
        status = fleet.ctl("status")
        assert status.returncode == 0
        assert f"{name}: changed, with a problem, and not in use" in status.stdout
        if (
            name == FILES[-1]
        ):  # of the files that are read for each start, the one without which agents can do
            assert fleet.ctl("restart", "one").stdout.startswith("one: ready")
    finally:
        path.unlink()
        if before is not None:
            path.write_bytes(before)
    assert fleet.ctl("reload", "--dry-run").returncode == 0


def test_a_file_that_is_hard_to_read_leaves_no_memory_behind(fleet: Fleet) -> None:
    path = fleet.deployment.directory / ".env"
    path.write_text("OPEN='" + "[" * 100_000)  # a parser goes back from the end, letter by letter
    try:
        assert fleet.post("/v1/reload", dry_run=True).status_code == 422
        before = proportional_memory(fleet.pid)
        for _ in range(8):  # by one thread or another
            assert fleet.post("/v1/reload", dry_run=True).status_code == 422
        assert proportional_memory(fleet.pid) - before < 8 * 1024 * 1024
    finally:
        path.unlink()


def test_a_literal_key_is_a_warning_at_the_start_and_is_shown_nowhere(fleet: Fleet) -> None:
    [line] = [line for line in fleet.stderr.splitlines() if "looks like a key" in line][:1]
    assert line.startswith("[test-fleet] warning: ")
    assert "agents.one.env.SERVICE: looks like a key" in line
    assert "put it into .env" in line
    assert KEY not in fleet.stderr + fleet.log_file.read_text()


def test_a_log_file_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "one")
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "p.log"
    result = run_to_end(deployment, env={"PALLAS_LOG_FILE": str(path)})
    assert result.returncode == 1
    assert result.stderr == (
        f"pallas: cannot start: the log file {path} cannot be written ({path.parent}: File exists); "
        "set PALLAS_LOG_FILE to a file that this user may write\n"
    )
