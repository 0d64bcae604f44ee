"""Files and variables that nobody should have, met by a real supervisor: it refuses them and goes on serving."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from harness.deployment import make_deployment
from harness.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = ["agents.yaml", ".env", "fastagent.config.yaml", "fastagent.secrets.yaml"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(make_deployment(tmp_path_factory.mktemp("fleet"), "one")) as running:
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
