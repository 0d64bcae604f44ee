"""Where the control socket is, and whom its directory may belong to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_common.problems import ConfigurationError
from pallas_registry.environment.runtime_directory import (
    control_socket,
    ensure_private,
    is_own,
    path_name,
    runtime_directory,
)

UID = os.getuid()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (
            {"PALLAS_RUNTIME_DIR": "/p", "RUNTIME_DIRECTORY": "/r", "XDG_RUNTIME_DIR": "/x", "TMPDIR": "/t"},
            "/p",
        ),
        ({"RUNTIME_DIRECTORY": "/r", "XDG_RUNTIME_DIR": "/x", "TMPDIR": "/t"}, "/r"),
        ({"RUNTIME_DIRECTORY": "/r/one:/r/two"}, "/r/one"),
        ({"XDG_RUNTIME_DIR": "/x", "TMPDIR": "/t"}, "/x/pallas/demo"),
        ({"XDG_RUNTIME_DIR": "relative", "TMPDIR": "/t"}, f"/t/pallas-{UID}/demo"),
        (
            {"PALLAS_RUNTIME_DIR": "", "RUNTIME_DIRECTORY": "", "XDG_RUNTIME_DIR": "", "TMPDIR": "/t"},
            f"/t/pallas-{UID}/demo",
        ),
        ({}, f"/tmp/pallas-{UID}/demo"),
        ({"PALLAS_RUNTIME_DIR": "here"}, str(Path.cwd() / "here")),
    ],
)
def test_the_first_that_is_set_counts(environ: dict[str, str], expected: str) -> None:
    assert runtime_directory("demo", environ) == Path(expected)
    assert control_socket("demo", environ) == Path(expected, "control.sock")


@given(st.text())
def test_any_name_makes_one_plain_component(name: str) -> None:
    made = path_name(name)
    assert made
    assert made not in {".", ".."}
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert len(made) <= 50


def test_plain_names_stay_and_others_stay_apart() -> None:
    assert path_name("my-project_2.0") == "my-project_2.0"
    names = ["a b", "a-b", "a/b", "../a-b", "ä", "ö", "x" * 41, "x" * 42]
    assert len({path_name(name) for name in names}) == len(names)


def test_a_socket_path_has_a_limit() -> None:
    room = 107 - len("/control.sock")
    directory = "/" + "d" * (room - 1)
    assert len(str(control_socket("x", {"PALLAS_RUNTIME_DIR": directory}))) == 107
    with pytest.raises(
        ConfigurationError, match=r"has 108 bytes, a unix socket allows 107; set PALLAS_RUNTIME_DIR"
    ):
        control_socket("x", {"PALLAS_RUNTIME_DIR": directory + "d"})
    with pytest.raises(ConfigurationError, match="bytes"):
        control_socket("x", {"PALLAS_RUNTIME_DIR": "/" + "é" * 50})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_private_with_its_parents(tmp_path: Path) -> None:
    directory = tmp_path / f"pallas-{UID}" / "demo"
    ensure_private(directory)
    assert (mode(directory), mode(directory.parent)) == (0o700, 0o700)
    ensure_private(directory)


def test_an_existing_mode_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    ensure_private(tmp_path)
    assert mode(tmp_path) == 0o750


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ConfigurationError, match="is a symbolic link"):
        ensure_private(tmp_path / "link")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError):
        ensure_private(tmp_path / "dangling")


@pytest.mark.parametrize("parent", ["pallas", f"pallas-{UID}"])
def test_a_link_in_place_of_our_parent_is_refused(tmp_path: Path, parent: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / parent).symlink_to(tmp_path / "real")
    with pytest.raises(ConfigurationError, match=f"{parent}: is a symbolic link"):
        ensure_private(tmp_path / parent / "demo")


def test_another_users_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: UID + 1)
    with pytest.raises(ConfigurationError, match=rf"belongs to another user \(uid {UID}\)"):
        ensure_private(tmp_path)


def test_a_parent_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pallas-4242").mkdir()
    if UID == 0:
        os.chown(tmp_path / "pallas-4242", 4243, -1)
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    with pytest.raises(ConfigurationError, match="pallas-4242: belongs to another user"):
        ensure_private(tmp_path / "pallas-4242" / "demo")


def test_a_directory_open_to_all_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigurationError, match="is writable for every user; run `chmod o-w"):
        ensure_private(tmp_path)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigurationError, match=r"(?i)not a directory"):
            ensure_private(path)


def test_a_folder_that_others_may_have_made_is_not_looked_for_a_socket(tmp_path: Path) -> None:
    environ = {"TMPDIR": str(tmp_path)}
    folder = tmp_path / f"pallas-{os.getuid()}"
    assert is_own(folder)
    (folder / "fleet").mkdir(parents=True)
    folder.chmod(0o777)
    assert not is_own(folder)
    with pytest.raises(ConfigurationError, match="writable for every user"):
        control_socket("fleet", environ)
    folder.chmod(0o700)
    assert control_socket("fleet", environ) == folder / "fleet" / "control.sock"
