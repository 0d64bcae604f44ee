"""The unit that is written for a deployment: the shipped one with its paths, good for systemd."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pallas.service.unit import Service, shipped_unit, unit_for
from support.repository import ROOT

SERVICE = Service(
    name="pallas-demo",
    deployment="demo",
    directory=Path("/srv/demo"),
    config=None,
    programs=Path(sys.executable).parent,
    user="daemon",
    group="daemon",
    search_path="/opt/with space/bin:/usr/bin",
)
OF_USER = dataclasses.replace(SERVICE, user=None, group=None)


def settings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_shipped_unit_is_the_repositorys() -> None:
    assert shipped_unit() == (ROOT / "systemd/pallas-supervisor.service").read_text()


def test_a_systems_unit_differs_from_the_shipped_one_in_names_and_paths_alone() -> None:
    changed = set(settings(unit_for(SERVICE, shipped_unit()))) ^ set(settings(shipped_unit()))
    assert {line.partition("=")[0] for line in changed} == {
        "Description",
        "User",
        "Group",
        "WorkingDirectory",
        "ExecStart",
        "ExecReload",
        "RuntimeDirectory",
        "StateDirectory",
        "CacheDirectory",
        "Environment",
    }


def test_a_users_unit_has_nothing_that_only_roots_can_do() -> None:
    lines = settings(unit_for(OF_USER, shipped_unit()))
    keys = {line.partition("=")[0] for line in lines}
    assert not keys & {
        "User",
        "Group",
        "CapabilityBoundingSet",
        "ProtectSystem",
        "PrivateTmp",
        "After",
        "Wants",
    }
    assert {"Type=notify", "NoNewPrivileges=yes", "WantedBy=default.target", "Delegate=yes"} <= set(lines)
    assert 'Environment="PATH=/opt/with space/bin:/usr/bin"' in lines


def test_files_in_homes_and_temporary_folders_stay_visible() -> None:
    lines = settings(unit_for(dataclasses.replace(SERVICE, in_homes=True, in_temporary=True), shipped_unit()))
    assert {"ProtectHome=read-only", "PrivateTmp=no"} <= set(lines)


def test_paths_are_written_so_that_systemd_reads_them_as_they_are() -> None:
    odd = dataclasses.replace(SERVICE, directory=Path("/srv/50% off"), config=Path('/srv/$a "b"/agents.yaml'))
    lines = settings(unit_for(odd, shipped_unit()))
    assert "WorkingDirectory=/srv/50%% off" in lines
    assert any(line.endswith(r'--config "/srv/$$a \"b\"/agents.yaml"') for line in lines)
    with pytest.raises(ValueError, match="no unit can have"):
        unit_for(dataclasses.replace(SERVICE, directory=Path("/srv/a\nExecStart=/bin/evil")), shipped_unit())


def test_a_shipped_unit_without_a_setting_that_is_changed_is_a_defect() -> None:
    with pytest.raises(ValueError, match="WorkingDirectory"):
        unit_for(SERVICE, re.sub("WorkingDirectory=.*\n", "", shipped_unit()))


@pytest.mark.parametrize("service", [SERVICE, OF_USER], ids=["system", "user"])
def test_systemd_finds_nothing_wrong(service: Service, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        message = "not run: needs systemd-analyze (apt-get install systemd)"
        if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
            pytest.fail(message)
        pytest.skip(message)
    unit = tmp_path / f"{service.name}.service"
    unit.write_text(unit_for(service, shipped_unit()))
    manager = ["--user"] if service.user is None else []
    environment = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning", "XDG_RUNTIME_DIR": str(tmp_path)}
    result = subprocess.run(
        [analyze, *manager, "verify", "--man=no", str(unit)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.stderr, result.stdout, result.returncode) == ("", "", 0)
