"""The systemd files as systemd itself reads them: clean, tight enough, and users and folders are made."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.repository import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SYSTEMD = ROOT / "systemd"
UNIT = SYSTEMD / "pallas-supervisor.service"
DROP_INS = sorted((SYSTEMD / "pallas-supervisor.service.d").glob("*.conf.example"))


def need(program: str) -> str:
    """The program's path; without it the test is not run, or fails where peers are required."""
    path = shutil.which(program)
    if path is None:
        message = f"not run: needs {program} (apt-get install systemd)"
        if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return path


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SYSTEMD_COLORS": "0", "SYSTEMD_LOG_LEVEL": "warning"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def installed_unit(directory: Path) -> Path:
    """The unit as after an installation: its commands exist."""
    text = UNIT.read_text().replace("=/opt/pallas/bin/pallas", f"={sys.executable} ")
    assert sys.executable in text
    unit = directory / UNIT.name
    unit.write_text(text)
    return unit


def test_the_unit_is_clean(tmp_path: Path) -> None:
    result = run(need("systemd-analyze"), "verify", "--man=no", str(installed_unit(tmp_path)))
    assert (result.stderr, result.stdout, result.returncode) == ("", "", 0)


def test_the_socket_unit_is_clean(tmp_path: Path) -> None:
    example = SYSTEMD / "pallas-supervisor.socket.example"
    socket_unit = tmp_path / example.name.removesuffix(".example")
    socket_unit.write_text(example.read_text())
    result = run(
        need("systemd-analyze"), "verify", "--man=no", str(socket_unit), str(installed_unit(tmp_path))
    )
    assert (result.stderr, result.stdout, result.returncode) == ("", "", 0)


def test_the_unit_exposes_little() -> None:
    result = run(
        need("systemd-analyze"), "security", "--offline=yes", "--no-pager", "--threshold=25", str(UNIT)
    )
    assert result.returncode == 0, result.stdout[-300:]


@pytest.mark.parametrize("drop_in", DROP_INS, ids=lambda path: path.name)
def test_drop_ins_are_clean(drop_in: Path, tmp_path: Path) -> None:
    analyze = need("systemd-analyze")
    version = re.search(r"systemd (\d+)", run(analyze, "--version").stdout)
    wanted = re.fullmatch(r"systemd-(\d+)", drop_in.name.removesuffix(".conf.example"))
    assert version is not None
    if wanted is not None and int(wanted[1]) > int(version[1]):
        pytest.skip(f"not run: needs systemd {wanted[1]}, this is {version[1]}")
    unit = installed_unit(tmp_path)
    folder = tmp_path / f"{unit.name}.d"
    folder.mkdir()
    (folder / drop_in.name.removesuffix(".example")).write_text(drop_in.read_text())
    result = run(analyze, "verify", "--man=no", str(unit))
    assert (result.stderr, result.stdout, result.returncode) == ("", "", 0)


@pytest.mark.skipif(os.getuid() != 0, reason="not run: needs root, as it makes users below a temporary root")
def test_users_and_folders_are_made(tmp_path: Path) -> None:
    sysusers, tmpfiles = need("systemd-sysusers"), need("systemd-tmpfiles")
    (tmp_path / "etc").mkdir()
    made = run(sysusers, f"--root={tmp_path}", str(SYSTEMD / "sysusers.d/pallas.conf"))
    assert made.returncode == 0, made.stderr
    assert re.search(r"^pallas:.*:/var/lib/pallas:", (tmp_path / "etc/passwd").read_text(), re.MULTILINE)
    made = run(tmpfiles, f"--root={tmp_path}", "--create", str(SYSTEMD / "tmpfiles.d/pallas.conf"))
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "srv/pallas").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "etc/pallas").stat().st_mode & 0o777 == 0o700


def test_the_control_socket_is_where_pallasctl_looks_for_it() -> None:
    from pallas_control.locate import SYSTEM_SOCKET

    assert re.search(r"^RuntimeDirectory=pallas$", UNIT.read_text(), re.MULTILINE)
    assert str(SYSTEM_SOCKET) == "/run/pallas/control.sock"
