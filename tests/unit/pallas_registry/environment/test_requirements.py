"""What a newer version has kept stops an older one, by name, before anything of it is passed over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pallas_common import __version__
from pallas_common.problems import ConfigurationError
from pallas_registry.environment import requirements
from pallas_registry.environment.requirements import FILE, check_requirements, is_of_newer, require
from pallas_registry.resources.model import KINDS
from pallas_supervisor.agents.changes.writing import keep

PALLAS = Path(sys.executable).parent / "pallas"


def test_what_is_not_known_is_refused_with_its_name_and_who_wrote_it(tmp_path: Path) -> None:
    check_requirements(None)
    check_requirements(tmp_path / "missing")
    check_requirements(tmp_path)
    (tmp_path / FILE).write_text(
        "resources/agent Pallas 0.9.0\n\nresources/policy Pallas 0.10.0\nwalls\x07\n"
    )
    with pytest.raises(ConfigurationError) as caught:
        check_requirements(tmp_path)
    policy, walls = map(str, caught.value.problems)
    assert "requires:3: 'resources/policy' was kept here by Pallas 0.10.0" in policy
    assert f"this version ({__version__}) does not know it; start Pallas 0.10.0 or newer" in policy
    assert "walls\\x07" in walls
    assert is_of_newer(caught.value)


@pytest.mark.parametrize("what", ["large", "a folder", "a link"])
def test_what_cannot_be_read_is_not_passed_over(tmp_path: Path, what: str) -> None:
    path = tmp_path / FILE
    if what == "large":
        path.write_bytes(b"x" * (requirements.MOST_BYTES + 1))
    elif what == "a folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="nobody can tell"):
        check_requirements(tmp_path)


def test_who_keeps_something_says_so_once_and_leaves_the_lines_of_others(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("resources/llm Pallas 0.8.5\n")
    for _ in range(2):
        require(tmp_path, ["resources/llm", "resources/agent"])
    assert (tmp_path / FILE).read_text() == (
        f"resources/llm Pallas 0.8.5\nresources/agent Pallas {__version__}\n"
    )
    assert [each.name for each in tmp_path.iterdir()] == [FILE]
    check_requirements(tmp_path)


def test_all_kinds_are_understood_and_said_when_they_are_kept(tmp_path: Path) -> None:
    assert {f"resources/{kind}" for kind in KINDS} == requirements.KNOWN
    keep(tmp_path, [], [], b"x" * 32)
    assert not (tmp_path / FILE).exists()


def test_pallas_does_not_start_and_says_that_a_restart_cannot_help(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / FILE).write_text("resources/policy Pallas 0.10.0\n")
    (tmp_path / "agents.yaml").write_text("name: demo\n")
    environ = {**os.environ, "PALLAS_STATE_DIR": str(state), "PALLAS_RUNTIME_DIR": str(tmp_path / "run")}
    for arguments in ([], ["up", "-d"]):
        done = subprocess.run(
            [PALLAS, *arguments], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 78
        assert "'resources/policy' was kept here by Pallas 0.10.0" in done.stderr
