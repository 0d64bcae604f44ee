"""The files of a project that may define agents, found and read within bounds, whatever lies in the folder.

Looks at names and kinds before it opens anything. Follows no link to a folder.
"""

from __future__ import annotations

import os
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.problems import ConfigurationError
from pallas_registry.reading.files import read_file

if TYPE_CHECKING:
    from pathlib import Path

MAXIMUM_ENTRIES = 50_000
"""Files and folders that are looked at."""
MAXIMUM_FILES = 5_000
"""Files that are read."""
MAXIMUM_BYTES = 32 << 20
"""Of all files together; a single one is bounded by `read_file`."""
MAXIMUM_DEPTH = 16

SUFFIXES = (".py", ".md", ".markdown", ".yaml", ".yml")
FAST_AGENT_HOME = ".fast-agent"
SETTINGS = ("fast-agent.yaml", "fast-agent.config.yaml", "fastagent.config.yaml")
_OF_A_PROJECT = frozenset({"agents.yaml", FAST_AGENT_HOME, *SETTINGS})
"""What a folder has that is a project of its own."""
_SKIPPED = frozenset(
    {
        "__pycache__",
        "node_modules",
        "site-packages",
        "venv",
        "env",
        "virtualenv",
        "build",
        "dist",
        "tests",
        "test",
    }
)


class Tree(NamedTuple):
    """What there is below a folder."""

    files: dict[str, bytes]
    """By path relative to the folder, with slashes; in the order of their paths."""
    others: tuple[str, ...]
    """Folders below that have fast-agent settings of their own: projects of their own."""
    packages: frozenset[str]
    """Folders with an `__init__.py`."""
    cut_short: str | None
    """Why not everything was looked at."""


def read_tree(directory: Path) -> Tree:
    """The files below `directory` that may define agents. What cannot be read is left out.

    Raises:
        OSError: the folder itself cannot be listed.
    """
    walk = _Walk(directory)
    walk.run()
    cut_short = walk.cut_short
    files: dict[str, bytes] = {}
    total = 0
    for path in sorted(walk.paths, key=lambda path: (path.count("/"), path)):
        try:
            data = read_file(directory / path)
        except ConfigurationError:
            continue
        if data is None:
            continue
        total += len(data)
        if total > MAXIMUM_BYTES:
            cut_short = f"more than {MAXIMUM_BYTES >> 20} MB of sources"
            break
        files[path] = data
    return Tree(files, tuple(sorted(walk.others)), frozenset(walk.packages), cut_short)


class _Walk:
    """The names below a folder, nearest first."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.paths: list[str] = []
        self.others: list[str] = []
        self.packages: set[str] = set()
        self.cut_short: str | None = None
        self.seen = 0
        self.waiting = deque([""])

    def run(self) -> None:
        while self.waiting and self.cut_short is None:
            folder = self.waiting.popleft()
            try:
                with os.scandir(self.directory / folder) as found:
                    entries = sorted(islice(found, MAXIMUM_ENTRIES + 1), key=lambda entry: entry.name)
            except OSError:
                if not folder:
                    raise
                continue
            self.folder(folder, entries)

    def folder(self, folder: str, entries: list[os.DirEntry[str]]) -> None:
        names = {entry.name for entry in entries}
        if "pyvenv.cfg" in names:
            return
        if folder and folder != FAST_AGENT_HOME and not names.isdisjoint(_OF_A_PROJECT):
            self.others.append(folder)
            return
        if "__init__.py" in names:
            self.packages.add(folder)
        self.seen += len(entries)
        if self.seen > MAXIMUM_ENTRIES:
            self.cut_short = f"more than {MAXIMUM_ENTRIES} files and folders"
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not path.isprintable():
                continue
            if entry.is_dir(follow_symlinks=False):
                if _is_looked_into(entry.name) and path.count("/") < MAXIMUM_DEPTH:
                    self.waiting.append(path)
            elif entry.name.lower().endswith(SUFFIXES) and entry.is_file():
                self.paths.append(path)
        if len(self.paths) > MAXIMUM_FILES:
            del self.paths[MAXIMUM_FILES:]
            self.cut_short = f"more than {MAXIMUM_FILES} sources"


def _is_looked_into(name: str) -> bool:
    return name == FAST_AGENT_HOME or not (name.startswith(".") or name.lower() in _SKIPPED)
