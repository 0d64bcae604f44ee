"""A mistake of a user as data: what is in the folder, and the commands that meet it; and how both become a text.

Commands run in this process, where a process of their own would tell nothing more; `Mistake.apart` says which do not.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from click.testing import CliRunner

from pallas.server import pallas
from pallas_common import __version__
from pallasctl.main import pallasctl
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

BIN = Path(sys.executable).parent
GOLDEN = Path(__file__).parent / "golden"
WRITE = "PALLAS_WRITE_GOLDEN"
"""Variable that, set to 1, has the golden files written instead of compared."""

PATIENCE = 120.0
PORTS = range(8200, 8260)
"""What files and commands may write; in their place, ports are used that are free."""

WITHOUT_PRIVILEGES = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)
"""Root's processes obey the modes of files, as a user's do."""

STATUSES = {0, 1, 2, 3, 4}
_PRIVATE = re.compile(
    r"PALLAS_.*|FAST_AGENT_.*|.*_API_KEY|CREDENTIALS_DIRECTORY|XDG_.*|.*_DIRECTORY|LINES|COLUMNS"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """Something that goes wrong in the first days.

    `files` are there before; `prepare` does to the folder what a file cannot say, and returns what it holds open.
    `commands` are lines as a shell takes them, with assignments before the program, run one after the other.
    """

    name: str
    commands: Sequence[str]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    prepare: Callable[[Place], object] | None = None
    apart: bool = False
    """Whether the commands are processes of their own."""


class Place:
    """A user's machine: a home, a project folder in it, and a runtime directory; and ports that stand for others."""

    def __init__(self, root: Path, environ: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.home = root / "home"
        self.folder = self.home / "project"
        self.folder.mkdir(parents=True)
        (root / "run").mkdir(mode=0o700)
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.environ = {
            **{name: value for name, value in os.environ.items() if not _PRIVATE.fullmatch(name)},
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(root / "run"),
            "NO_COLOR": "1",
            "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]),
            **(environ or {}),
        }

    @property
    def socket(self) -> Path:
        """The control socket of the deployment `demo`, where it runs here."""
        return self.root / "run" / "pallas" / "demo" / "control.sock"

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write the files, with their ports replaced."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else self.real(content).encode())
            if path.read_bytes().startswith(b"#!"):
                path.chmod(0o755)

    def real(self, text: str) -> str:
        """The text with ports that are free for those it names."""
        return re.sub(r"\b82[0-5]\d\b", lambda match: str(self.ports[int(match[0])]), text)

    def plain(self, text: str) -> str:
        """What was printed, without what differs from one run or machine to the next."""
        for port, real in self.ports.items():
            text = re.sub(rf"\b{real}\b", str(port), text)
        for path, name in (
            (self.folder, "/home/ann/project"),
            (self.home, "/home/ann"),
            (self.root, "/tmp/machine"),
        ):
            text = text.replace(str(path), name)
        text = text.replace(str(BIN.parent), "/opt/pallas").replace(__version__, "VERSION")
        for pattern, name in _VARYING:
            text = pattern.sub(name, text)
        return "\n".join(line.rstrip() for line in text.split("\n"))

    def transcript(self, mistake: Mistake) -> str:
        """What a user sees of it: each command, what it prints, and its exit status."""
        self.write(mistake.files)
        held = mistake.prepare(self) if mistake.prepare is not None else None
        try:
            return "\n".join(self.run(command, apart=mistake.apart) for command in mistake.commands)
        finally:
            close = getattr(held, "close", None)
            if close is not None:
                close()

    def run(self, command: str, *, apart: bool = False) -> str:
        """One command as a text: what is on stdout, what is on stderr, and the exit status."""
        status, stdout, stderr = (self._apart if apart else self._within)(command)
        both = self.plain(stdout), self.plain(stderr)
        check(command, status, *both)
        parts = [f"$ {command}\n"]
        for stream, text in zip(("stdout", "stderr"), both, strict=True):
            if text:
                parts.append(f"--- {stream}\n{text if text.endswith('\n') else text + '\n'}")
        parts.append(f"--- exit status {status}\n")
        return "".join(parts)

    def _split(self, command: str) -> tuple[list[str], dict[str, str]]:
        words, environ = shlex.split(self.real(command)), dict(self.environ)
        while words and _ASSIGNMENT.fullmatch(words[0]):
            name, _, value = words.pop(0).partition("=")
            environ[name] = value
        return words, environ

    def _within(self, command: str) -> tuple[int, str, str]:
        words, environ = self._split(command)
        program = {"pallas": pallas, "pallasctl": pallasctl}[words[0]]
        with (
            _environment(environ),
            chdir(self.folder),
            patch("pallas.serve.zygote_for", side_effect=AssertionError("it was started")),
        ):
            result = CliRunner().invoke(program, words[1:], prog_name=words[0])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    def _apart(self, command: str) -> tuple[int, str, str]:
        unprivileged = WITHOUT_PRIVILEGES if os.getuid() == 0 else ()
        done = subprocess.run(
            [*unprivileged, "/bin/sh", "-c", self.real(command)],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


_VARYING = (
    (re.compile(r"taken by .+? \(pid"), "taken by python (pid"),
    (re.compile(r"\bprocess \d+"), "process 4711"),
    (re.compile(r"\bpid \d+"), "pid 4711"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)"), "2026-01-01T12:00:00Z"),
)


def check(command: str, status: int, stdout: str, stderr: str) -> None:
    """What holds for every mistake."""
    said = f"{command}\n{stdout}\n{stderr}"
    assert "Traceback" not in said, said
    assert status in STATUSES, said
    assert stdout or stderr, command
    if status == 2:
        assert stderr, said


def compare(subject: str, name: str, text: str) -> None:
    """The text is that of its golden file; or becomes it, where that is asked for."""
    path = GOLDEN / subject / f"{name}.txt"
    if os.environ.get(WRITE) == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.is_file(), f"{path} is missing: look at the text, and write it with {WRITE}=1\n{text}"
    golden = path.read_text()
    difference = "\n".join(difflib.unified_diff(golden.splitlines(), text.splitlines(), lineterm=""))
    assert text == golden, f"if the new text is better, write it with {WRITE}=1\n{difference}"


@contextmanager
def _environment(environ: Mapping[str, str]) -> Iterator[None]:
    with patch.dict(os.environ, environ, clear=True):
        yield
