"""Whether files are still what they were: by their size and times, and by their content where those changed.

Keeps digests and nothing of what is in a file. A digest is keyed with a number of this process, so that it
says nothing about a secret.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

import yaml

from pallas_common.problems import ConfigurationError
from pallas_registry.reading.files import read_file
from pallas_registry.reading.nodes import bounded_events

if TYPE_CHECKING:
    from pathlib import Path

type Fingerprint = bytes | None
"""None: there is no such file."""

SETTLED = 0.1
"""Seconds without a change after which a file's times can be trusted to show the next one."""

YAML = frozenset({".yaml", ".yml"})


class _Known(NamedTuple):
    marks: tuple[int, ...]
    fingerprint: bytes
    settled: bool


class Fingerprints:
    """Fingerprints of files; two of one object can be compared."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._known: dict[Path, _Known] = {}

    def of(self, path: Path) -> Fingerprint:
        """The file's fingerprint. Comments and layout of YAML files do not count. Never raises."""
        try:
            found = path.stat()
        except OSError:
            self._known.pop(path, None)
            return None
        if not stat.S_ISREG(found.st_mode):  # a folder, or a pipe without a writer
            return None
        marks = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = self._known.get(path)
        if known is not None and known.settled and known.marks == marks:
            return known.fingerprint
        settled = time.time() - found.st_ctime > SETTLED
        try:
            content = read_file(path)
            if content is None:  # it has just gone
                return None
        except ConfigurationError as error:
            content, settled = f"unreadable: {error}".encode("utf-8", "replace"), False
        fingerprint = self._digest(_meaning(content) if path.suffix in YAML else content)
        self._known[path] = _Known(marks, fingerprint, settled)
        return fingerprint

    def _digest(self, content: bytes) -> bytes:
        return hashlib.blake2b(content, key=self._key, digest_size=16).digest()


def _meaning(content: bytes) -> bytes:
    """What the YAML text says, without its comments and layout; the text itself if it is none."""
    try:
        return "\n".join(map(_said, bounded_events(content))).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, UnicodeError):
        return content


def _said(event: yaml.Event) -> str:
    """An event of the YAML reader without its place in the file."""
    said = [getattr(event, name, None) for name in ("anchor", "tag", "implicit", "value")]
    return f"{type(event).__name__} {said!r}"
