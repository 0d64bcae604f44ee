"""The commands for the installation run as they stand: in the folder that the page names, with paths that exist."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.repository import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "installation.md"
QUICKSTART = ROOT / "examples" / "quickstart" / "README.md"

# What takes minutes stands for itself: it only shows what it was asked, and from which environment.
STAND_INS = """
set -eu
python3.13() {
    test "$*" = "-m venv .venv"
    mkdir -p .venv/bin && echo 'ACTIVE="$PWD/.venv"' >.venv/bin/activate
}
pip() { echo "$ACTIVE|$*"; }
pallas() { echo "$ACTIVE|pallas|$PWD"; }
pallasctl() { echo "$ACTIVE|pallasctl|$PWD"; }
curl() { :; }
"""


def blocks(page: Path) -> list[str]:
    """The indented blocks of a page, in their order."""
    found = re.findall(r"(?:^    .*\n)+", page.read_text(), re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found]


def run(script: str, directory: Path) -> list[list[str]]:
    """What the stand-ins were asked, by `|`."""
    result = subprocess.run(
        ["bash", "-c", STAND_INS + script], cwd=directory, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return [line.split("|") for line in result.stdout.splitlines()]


def is_installable(arguments: str, directory: Path) -> None:
    command, option, constraints, source = arguments.split()
    assert (command, option) == ("install", "-c")
    assert (directory / constraints).is_file()
    assert (directory / source / "pyproject.toml").is_file()


def test_a_project_gets_an_environment_with_pallas_in_it(tmp_path: Path) -> None:
    (block,) = [block for block in blocks(PAGE) if "pip install" in block]
    [[active, asked]] = run(block.replace("/path/to/pallas", str(ROOT)), tmp_path)
    assert active == str(tmp_path / ".venv")
    is_installable(asked, tmp_path)


def test_the_quickstart_from_the_installation_to_the_first_question(tmp_path: Path) -> None:
    for name in ("constraints.txt", "pyproject.toml"):
        (tmp_path / name).touch()
    folder = tmp_path / "examples" / "quickstart"
    folder.mkdir(parents=True)
    install, serve, look = blocks(QUICKSTART)[:3]
    [[active, asked], served] = run(install + serve, tmp_path)
    is_installable(asked, tmp_path)
    assert served == [active, "pallas", str(folder)]
    [[active, *looked]] = run(look, folder)
    assert looked == ["pallasctl", str(folder)]
    assert active, "another terminal needs it as well"


@pytest.mark.parametrize("page", [PAGE, QUICKSTART], ids=lambda page: page.parent.name)
def test_every_script_that_a_command_names_is_there(page: Path) -> None:
    scripts = {word for block in blocks(page) for word in re.findall(r"[\w./-]*scripts/[\w./-]+", block)}
    assert scripts
    for script in scripts:
        assert ((page.parent if script.startswith(".") else ROOT) / script).is_file()
