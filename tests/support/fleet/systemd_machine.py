"""A real systemd to test against: booted on a throw-away copy of this machine's root, with Pallas installed in it.

Knows systemd-nspawn, namespaces and the installation that `systemd/README.md` tells; nothing of what is tested.
Everything is mounted in a namespace of its own and goes when the process goes.
"""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import shutil
import site
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from support.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

REPOSITORY = ROOT
UNIT = "pallas-supervisor.service"
PATIENCE = 90.0
ENVIRONMENT = {
    "PATH": "/opt/pallas/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "PALLAS_CONTROL_SOCKET": "/run/pallas/control.sock",
}
"""Of the commands that are run inside."""

BOOT = """
set -e
mount -t tmpfs tmpfs "$1" && mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
echo mounted
read -r go
mkdir "$2" && echo $$ >"$2/cgroup.procs"
root=$1
shift 2
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 exec systemd-nspawn -q -D "$root/root" "$@" --private-network --register=no \
    --keep-unit --console=read-only -b systemd.unit=multi-user.target >"$root/console" 2>&1 </dev/null
"""


def require_machine() -> None:
    """What the machine needs; without it the tests are not run, or fail where peers are required."""
    programs = ("systemd-nspawn", "nsenter", "unshare", "setpriv")
    missing = [program for program in programs if shutil.which(program) is None]
    if os.getuid() != 0:
        _not_run("root, to boot a systemd in a container")
    if missing:
        _not_run(f"{', '.join(missing)} (apt-get install systemd-container util-linux)")


def _not_run(needed: str) -> NoReturn:
    message = f"not run: needs {needed}"
    if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
        pytest.fail(message)
    pytest.skip(message)


class Machine:
    """One booted systemd. The network is its own: loopback and nothing else.

    Args:
        directory: an empty folder to mount things in.
        prepare: puts the deployment and more into the root that it is given, before the boot.
        repository: the tree of the version of Pallas that is installed.
    """

    def __init__(
        self, directory: Path, prepare: Callable[[Path], None], repository: Path = REPOSITORY
    ) -> None:
        self._repository = repository
        self._directory = directory
        self._prepare = prepare
        self._process: subprocess.Popen[str] | None = None
        self._pid = 0
        # Of its own: two machines without one would share the groups of their services.
        self._group = _control_groups() / f"pallas-machine-{os.getpid()}"

    def __enter__(self) -> Self:
        # With its own parent it dies, and with it the machine and its mounts.
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]
        binds = [f"--bind-ro={path}" for path in _interpreter_paths()]
        process = self._process = subprocess.Popen(
            [*command, "sh", "-c", BOOT, "sh", str(self._directory), str(self._group), *binds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            if process.stdout.readline() != "mounted\n":
                _not_run(f"a kernel that lets it mount an overlay ({process.communicate()[1].strip()})")
            root = Path(f"/proc/{process.pid}/root{self._directory}/root")
            _neutralise(root)
            self.install(self._repository, root)
            self._prepare(root)
            process.stdin.write("go\n")
            process.stdin.flush()
            self._wait_for_boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()  # its first process goes along, and with that one all others
        self._process.communicate()
        if self._group.exists():
            _remove_group(self._group)

    def install(self, repository: Path, root: Path | None = None) -> None:
        """Install Pallas from a tree in place of what is installed, as an upgrade of the package does."""
        _install(repository, root or self.path("/"), lambda *command: self._on_host(*command))

    def _on_host(self, *command: str) -> None:
        """Run a command beside the machine, where its root is mounted: `{root}` stands for it."""
        assert self._process is not None
        root = f"{self._directory}/root"
        enter = ["nsenter", "--target", str(self._process.pid), "--mount"]
        subprocess.run(
            [*enter, *(part.format(root=root) for part in command)], check=True, capture_output=True
        )

    def _wait_for_boot(self) -> None:
        """Until the manager inside says that it is up; what is asked too early fails at once, and is asked again."""
        assert self._process is not None
        assert self._process.stdout is not None
        waiting = threading.Event()
        for _ in range(int(PATIENCE / 0.05)):
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError, IndexError):
                children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
                self._pid = int(children.split()[0])
                state = self.run("systemctl", "is-system-running", "--wait", check=False).stdout.strip()
                if state in ("running", "degraded"):
                    return
            waiting.wait(0.05)
        raise RuntimeError(f"the machine does not boot: {self.console()[-2000:]}")

    def console(self) -> str:
        """What the machine has written to its console."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/root{self._directory}/console").read_text(errors="replace")

    # --- inside -------------------------------------------------------------------------------------------

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root."""
        enter = ["nsenter", "--target", str(self._pid), "--all"]
        result = subprocess.run(
            [*enter, *command], env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert not check or result.returncode == 0, (
            command,
            result.stdout,
            result.stderr,
            self.journal_text(),
        )
        return result

    def journal_text(self) -> str:
        """The end of the unit's journal."""
        self.run("journalctl", "--sync", check=False)
        return self.run("journalctl", "-u", UNIT, "-n", "40", "-o", "cat", check=False).stdout

    def properties(self, *names: str) -> dict[str, str]:
        """Properties of the unit."""
        output = self.run("systemctl", "show", UNIT, "-p", ",".join(names)).stdout
        return dict(line.split("=", 1) for line in output.splitlines())

    def journal(self, *matches: str) -> list[dict[str, Any]]:
        """Entries of the unit's journal that match."""
        self.run("journalctl", "--sync")
        output = self.run("journalctl", "-u", UNIT, "-o", "json", "--all", "--no-pager", *matches).stdout
        return [json.loads(line) for line in output.splitlines()]

    def until_journal(self, text: str) -> None:
        """Return as soon as the unit's journal, or what the manager says of the unit, has a line with this text."""
        enter = ["nsenter", "--target", str(self._pid), "--all"]
        follow = ["timeout", f"{PATIENCE:g}", "journalctl", "-u", UNIT, "-f", "-n", "all", "-o", "cat"]
        with subprocess.Popen(
            [*enter, *follow], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            found = any(text in line for line in process.stdout)
            process.kill()
        assert found, (text, self.journal_text())

    def path(self, inside: str) -> Path:
        """A path inside, as this process can reach it."""
        return Path(f"/proc/{self._pid}/root{inside}")

    def processes(self) -> dict[int, str]:
        """The unit's processes by the IDs that they have inside."""
        group = self.properties("ControlGroup")["ControlGroup"]
        script = f"find /sys/fs/cgroup{group} -name cgroup.procs -exec cat {{}} +"
        found = self.run("sh", "-c", script, check=False).stdout.split()
        names = {}
        for pid in map(int, found):
            with contextlib.suppress(OSError):
                names[pid] = self.path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
        return names

    def commands(self) -> list[str]:
        """The command lines of all processes inside."""
        found = []
        for file in self.path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found.append(file.read_text().replace("\0", " ").strip())
        return found

    def listening(self) -> list[int]:
        """The TCP ports that somebody listens on inside."""
        lines = Path(f"/proc/{self._pid}/net/tcp").read_text().splitlines()[1:]
        return [int(line.split()[1].split(":")[1], 16) for line in lines if line.split()[3] == "0A"]

    def on_network[Result](self, do: Callable[[], Result]) -> Result:
        """Call `do` in a thread whose sockets are in the machine's network."""
        results: list[Result] = []
        failures: list[BaseException] = []

        def enter() -> None:
            try:
                with Path(f"/proc/{self._pid}/ns/net").open("rb") as namespace:
                    os.setns(namespace.fileno(), os.CLONE_NEWNET)
                results.append(do())
            except BaseException as error:  # noqa: BLE001 - it is raised again below
                failures.append(error)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if failures:
            raise failures[0]
        return results[0]


def _control_groups() -> Path:
    """Where control groups of version 2 are mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    raise AssertionError("control groups of version 2 are not mounted")


def _remove_group(group: Path) -> None:
    (group / "cgroup.kill").write_text("1")
    waiting = threading.Event()
    while "populated 1" in (group / "cgroup.events").read_text():
        waiting.wait(0.01)
    for folder, _, _ in group.walk(top_down=False):
        folder.rmdir()


def _interpreter_paths() -> list[str]:
    """Where the interpreter and the libraries of the tests' environment are."""
    return list(dict.fromkeys([sys.base_prefix, *site.getsitepackages()]))


def _neutralise(root: Path) -> None:
    """Of the machine's own services none is started in the copy."""
    for links in (root / "etc/systemd/system").glob("*.wants"):
        shutil.rmtree(links)
    (root / "etc/machine-id").write_text("")
    (root / "etc/fstab").write_text("")


def _packages(repository: Path) -> list[str]:
    """Folders of the packages, by the wheel."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    packages: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return packages


def _install(repository: Path, root: Path, on_host: Callable[..., None]) -> None:
    """Install Pallas as `systemd/README.md` says, with the libraries of the tests' environment."""
    target = root / "opt/pallas"
    packages = target / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    shutil.rmtree(target, ignore_errors=True)
    packages.mkdir(parents=True)
    for package in _packages(repository):
        copy = packages / Path(package).name
        shutil.copytree(repository / package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(packages, quiet=2, stripdir=str(root), prependdir="/")
    (packages / "libraries.pth").write_text("\n".join(site.getsitepackages()))
    binaries = target / "bin"
    binaries.mkdir()
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    (binaries / "python").symlink_to(base)
    (target / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    for name, module in (("pallas", "pallas.server"), ("pallasctl", "pallasctl.main")):
        script = binaries / name
        script.write_text(f"#!/opt/pallas/bin/python\nfrom {module} import main\nmain()\n")
        script.chmod(0o755)
    for source, place in (
        (UNIT, "etc/systemd/system"),
        ("sysusers.d/pallas.conf", "etc/sysusers.d"),
        ("tmpfiles.d/pallas.conf", "etc/tmpfiles.d"),
    ):
        (root / place).mkdir(exist_ok=True)
        shutil.copy(repository / "systemd" / source, root / place)
    on_host("systemd-sysusers", "--root={root}", "{root}/etc/sysusers.d/pallas.conf")
    on_host("systemd-tmpfiles", "--root={root}", "--create", "{root}/etc/tmpfiles.d/pallas.conf")
    drop_ins = root / f"etc/systemd/system/{UNIT}.d"
    drop_ins.mkdir(exist_ok=True)
    # The tests' interpreter may live where the unit hides things from agents.
    paths = " ".join(_interpreter_paths())
    (drop_ins / "interpreter.conf").write_text(f"[Service]\nProtectHome=tmpfs\nBindReadOnlyPaths={paths}\n")
