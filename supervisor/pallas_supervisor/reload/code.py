"""The source files that each worker has loaded, as it told, and which of them have changed since.

What a worker tells is not believed further than it goes: paths lead to nothing outside of the working directory, there
are not too many of them, and files are only compared.
"""

from __future__ import annotations

import hashlib
import stat
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError
from pallas_registry.reading.files import read_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pallas_common.protocol.reports import FileMark

MOST_FILES = 500
"""Of one worker."""

LONGEST_PATH = 500
"""Characters of a path."""

LONGEST_MARK = 64
"""Characters of what a file was, and of its digest: more than two numbers and 16 bytes take."""

MOST_NAMED = 20
"""Changed files of a worker that are named."""

MOST_READ = 16 << 20
"""Bytes that are read at one look; what is beyond counts as changed by its size and time."""


class LoadedCode:
    """What the workers have loaded.

    Args:
        directory: their working directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._told: dict[str, dict[int, dict[str, FileMark]]] = {}
        self._changed: dict[tuple[str, int], tuple[str, ...]] = {}
        self._known: dict[tuple[str, str], str | None] = {}
        """The digest of a file in a state; of those that differed at the last look."""

    def take(self, name: str, generation: int, files: Iterable[FileMark]) -> None:
        """Note what a worker says that it has loaded, beside what it said before."""
        known = self._told.setdefault(name, {}).setdefault(generation, {})
        for file in files:
            if len(known) < MOST_FILES and _is_within(file.path) and _is_mark(file):
                known.setdefault(file.path, file)

    def keep_only(self, name: str, generations: Iterable[int]) -> None:
        """Forget what other workers of the agent have said."""
        kept = set(generations)
        for generation in self._told.get(name, {}).keys() - kept:
            del self._told[name][generation]
            self._changed.pop((name, generation), None)

    def agent_removed(self, name: str) -> None:
        """Forget all that the agent's workers have said."""
        self.keep_only(name, ())
        self._told.pop(name, None)

    def look(self) -> None:
        """Compare the files with what was told. Reads files: not for the event loop."""
        states: dict[str, str | None] = {}
        digests: dict[tuple[str, str], str | None] = {}
        left = MOST_READ
        changed = {}
        for name, workers in list(self._told.items()):
            for generation, files in list(workers.items()):
                differing = []
                for path, told in list(files.items()):
                    if path not in states:
                        states[path] = self._state(path)
                    state = states[path]
                    if state == told.state:
                        continue
                    if state is not None and told.digest is not None:
                        if (path, state) not in digests:
                            digest, size = self._digest(path, state, left)
                            left -= size
                            digests[path, state] = digest
                        if digests[path, state] == told.digest:
                            continue
                    differing.append(path)
                changed[name, generation] = tuple(sorted(differing)[:MOST_NAMED])
        self._known, self._changed = digests, changed

    def changed(self, name: str, generation: int) -> tuple[str, ...]:
        """The files that differ from what this worker has loaded, by the last look: their paths, as it told them."""
        return self._changed.get((name, generation), ())

    def _state(self, path: str) -> str | None:
        try:
            found = (self._directory / path).stat()
        except (OSError, ValueError):
            return None
        return f"{found.st_size} {found.st_mtime_ns}" if stat.S_ISREG(found.st_mode) else None

    def _digest(self, path: str, state: str, left: int) -> tuple[str | None, int]:
        """The digest of the content, and the bytes that were read for it."""
        if (path, state) in self._known:
            return self._known[path, state], 0
        if int(state.partition(" ")[0]) > left:
            return None, 0
        try:
            content = read_file(self._directory / path)
        except ConfigurationError:
            return None, 0
        if content is None:
            return None, 0
        return hashlib.blake2b(content, digest_size=16).hexdigest(), len(content)


def _is_within(path: str) -> bool:
    return 0 < len(path) <= LONGEST_PATH and not path.startswith("/") and ".." not in path.split("/")


def _is_mark(file: FileMark) -> bool:
    return max(len(file.state), len(file.digest or "")) <= LONGEST_MARK
