"""Where resources are kept, and whom that directory may belong to."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest

from pallas_common.problems import ConfigurationError
from pallas_registry.environment.state_directory import ensure_private, state_directory


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"PALLAS_STATE_DIR": "/p", "STATE_DIRECTORY": "/s", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/p"),
        ({"STATE_DIRECTORY": "/s", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/s"),
        ({"STATE_DIRECTORY": "/s/one:/s/two"}, "/s/one"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/pallas/demo"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/pallas/demo"),
        (
            {"PALLAS_STATE_DIR": "", "STATE_DIRECTORY": "", "XDG_STATE_HOME": "", "HOME": "/h"},
            "/h/.local/state/pallas/demo",
        ),
        ({"PALLAS_STATE_DIR": "here"}, str(Path.cwd() / "here")),
    ],
)
def test_the_first_that_is_set_counts(environ: dict[str, str], expected: str) -> None:
    assert state_directory("demo", environ) == Path(expected)


def test_deployments_of_any_name_stay_apart() -> None:
    assert state_directory("../a b", {"XDG_STATE_HOME": "/x"}) != state_directory(
        "a b", {"XDG_STATE_HOME": "/x"}
    )
    assert state_directory("../..", {"XDG_STATE_HOME": "/x"}).parent == Path("/x/pallas")  # type: ignore[union-attr]


def test_a_link_of_the_service_manager_is_followed(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "pallas").symlink_to("private")
    assert state_directory("demo", {"STATE_DIRECTORY": str(tmp_path / "pallas")}) == tmp_path / "private"


def test_who_has_no_home_has_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_uid: int) -> pwd.struct_passwd:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert state_directory("demo", {}) is None


def test_a_home_that_is_not_there_is_named() -> None:
    with pytest.raises(
        ConfigurationError, match="PALLAS_STATE_DIR: there is no home directory ~nobody-at-all"
    ):
        state_directory("demo", {"PALLAS_STATE_DIR": "~nobody-at-all/state"})


def test_it_is_made_private(tmp_path: Path) -> None:
    ensure_private(tmp_path / "pallas" / "demo")
    for made in (tmp_path / "pallas", tmp_path / "pallas" / "demo"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_what_cannot_be_trusted_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigurationError, match=r"is not a directory; remove it, or set PALLAS_STATE_DIR to a"
    ):
        ensure_private(tmp_path / "file")
    with pytest.raises(ConfigurationError, match="cannot be made the state directory: Not a directory"):
        ensure_private(tmp_path / "file" / "below")
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigurationError, match=r"belongs to another user .*; set PALLAS_STATE_DIR"):
        ensure_private(tmp_path)
