"""What is installed from a wheel or from a source distribution works without the repository.

Each goes into an environment of its own, whose libraries are those of the tests' environment: they take minutes to
install, and nothing of Pallas is among them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pallas_common import __version__
from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PACKAGES = {
    "pallas",
    "pallas_check",
    "pallas_common",
    "pallas_control",
    "pallas_gateway",
    "pallas_registry",
    "pallas_supervisor",
    "pallas_worker",
    "pallasctl",
}


class Installed(NamedTuple):
    """An environment with Pallas in it."""

    folder: Path

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        environ = {**without_python(os.environ), "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run(
            command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=120, check=False
        )


def without_python(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith(("PYTHON", "PALLAS_"))}


def build(source: Path, kind: str, into: Path) -> Path:
    """The distribution of a source tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    (made,) = into.iterdir()
    return made


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the source distribution, as pip makes it where there is no wheel."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    # A path file is not looked for in a folder that another one has named: Pallas itself is not found this way.
    (packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        folder / "bin" / "python",
        "install",
        "--no-index",
    ]
    subprocess.run([*pip, "--no-deps", wheel], check=True, capture_output=True, timeout=120)
    return Installed(folder)


def test_the_wheel_has_the_packages_and_what_they_read_and_no_more(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    own = {name for name in names if ".dist-info/" not in name and ".data/" not in name}
    assert {name.partition("/")[0] for name in own} == PACKAGES
    folders = ("common", "registry", "supervisor", "worker", "gateway")
    sources = (path for folder in folders for path in (ROOT / folder).glob("*/**/*") if path.is_file())
    files = {
        str(path.relative_to(ROOT)).partition("/")[2] for path in sources if "__pycache__" not in path.parts
    }
    assert files <= names, "the wheel lacks them"
    assert any(name.endswith("share/man/man1/pallasctl.1") for name in names)


def test_what_is_installed_is_this_version_and_not_the_repository(
    installed: Installed, tmp_path: Path
) -> None:
    for name in ("pallas", "pallasctl"):
        said = installed.run(name, "--version", cwd=tmp_path).stdout
        assert __version__ in said
    where = installed.run("python", "-c", "import pallas; print(pallas.__file__)", cwd=tmp_path).stdout
    assert where.startswith(str(installed.folder))
    assert (installed.folder / "share" / "man" / "man1" / "pallas.1").is_file()


def test_what_a_command_prints_from_files_is_there(installed: Installed, tmp_path: Path) -> None:
    assert '"agents"' in installed.run("pallas", "schema", cwd=tmp_path).stdout
    for shell in ("bash", "zsh", "fish"):
        printed = installed.run("pallas", "completion", shell, cwd=tmp_path)
        assert printed.returncode == 0, printed.stderr
        assert "_PALLASCTL_COMPLETE=" in printed.stdout
