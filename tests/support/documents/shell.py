"""Runs the commands of a page as a reader does: in one shell, block after block, in a folder of his own.

Knows bash; the commands `pallas`, `pallasctl` and `python3.13` are those of the tests' environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PATIENCE = 240.0
"""Seconds that a page may take."""

_MARK = "\x1e"
"""Between the outputs of two blocks; no command prints it."""


@dataclass
class Shell:
    """One reader's terminal.

    Args:
        folder: where he is; has to exist.
        home: an empty folder for his home, his runtime directory and the programs that are put before others.
        variables: more of his environment.
        first: folders with programs that are found before all others.
    """

    folder: Path
    home: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    first: Sequence[Path] = ()

    def run(self, blocks: Iterable[str]) -> list[str]:
        """What each block printed on stdout; any command that fails ends it, with an AssertionError that says where."""
        blocks = list(blocks)
        script = "".join(f"printf '\\036'; printf '\\036' >&2\n{block}\n" for block in blocks)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        printed, complaints = done.stdout.split(_MARK)[1:], done.stderr.split(_MARK)[1:]
        if done.returncode != 0:
            failed = blocks[len(complaints) - 1]
            raise AssertionError(
                f"exit status {done.returncode} of:\n{failed}\nstdout:\n{printed[-1]}\nstderr:\n{complaints[-1]}"
            )
        return printed

    def _environment(self) -> dict[str, str]:
        programs = self.home / "bin"
        programs.mkdir(exist_ok=True)
        link = programs / "python3.13"
        if not link.exists():
            # Not a link: an interpreter finds its environment by the path under which it is called.
            link.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            link.chmod(0o755)
        path = [*map(str, self.first), str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PALLAS_", "PYTEST_"))
        }
        return {
            **kept,
            "PATH": ":".join(path),
            "HOME": str(self.home),
            "PALLAS_RUNTIME_DIR": str(self.home / "run"),
            "PALLAS_STATE_DIR": str(self.home / "state"),
            "PALLAS_LOG_FILE": str(self.home / "pallas.log"),
            "NO_COLOR": "1",
            **self.variables,
        }


def matches(expected: str, printed: str) -> bool:
    """Whether just that was printed which a page shows, where `…` stands for anything and spaces may differ."""
    parts = (r"\s+".join(map(re.escape, part.split())) for part in expected.split("…"))
    return re.fullmatch(r"\s*" + r"[\s\S]*?".join(parts) + r"\s*", printed) is not None
