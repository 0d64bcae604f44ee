"""What must be understood to go by a state directory: a line of the file `requires` for each, with who wrote it.

A newer Pallas may keep what this one does not know, such as rules of who may do what. To pass over that would open what
was closed, so an older one refuses to start where a line names something that it does not know.

Knows names and a file; nothing of what they stand for.
"""

from __future__ import annotations

import os
import secrets
import stat
from typing import TYPE_CHECKING

from pallas_common import __version__
from pallas_common.problems import ConfigurationError, Problem, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FILE = "requires"
MOST_BYTES = 64 * 1024
LONGEST = 100
"""Characters of a name, and of a version."""

KNOWN = frozenset(f"resources/{kind}" for kind in ("agent", "llm", "secret", "server", "project"))
"""What this version understands: the kinds of resources. What a store needs its own schema says."""


class NotUnderstood(Problem):
    """Something in the state directory that this version does not know. Exit status 78: a restart cannot help."""


def is_of_newer(error: ConfigurationError) -> bool:
    """Whether a configuration cannot be used because of what a newer version has kept."""
    return any(isinstance(each, NotUnderstood) for each in error.found)


def check_requirements(state_directory: Path | None) -> None:
    """Refuse a state directory that needs more than this version understands.

    Raises:
        ConfigurationError: it does, or nobody can tell.
    """
    if state_directory is None:
        return
    path = state_directory / FILE
    problems = [
        NotUnderstood(
            str(path),
            number,
            "",
            f"{quoted(name)} was kept here by {version}, and this version ({__version__}) does not know it",
            f"start {version} or newer, or restore a backup from before",
        )
        for number, name, version in _lines(path)
        if name not in KNOWN
    ]
    if problems:
        raise ConfigurationError(problems)


def require(state_directory: Path, names: Iterable[str]) -> None:
    """Have the file name these, from this version on; written before what they stand for is.

    Raises:
        OSError: it cannot be written.
    """
    path = state_directory / FILE
    there = list(_lines(path))
    new = sorted(set(names) - {name for _, name, _ in there})
    if not new:
        return
    lines = [f"{name} {version}" for _, name, version in there]
    lines += [f"{name} Pallas {__version__}" for name in new]
    temporary = path.with_name(f".{FILE}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(descriptor, "w") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            os.fsync(descriptor)
        temporary.rename(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        temporary.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Number, name and version of each.

    Raises:
        ConfigurationError: the file is there and cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _unreadable(path, "it is not a file")
        data = os.read(descriptor, MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise _unreadable(path, f"it is larger than {MOST_BYTES} bytes")
    for number, line in enumerate(data.decode("utf-8", "backslashreplace").splitlines(), 1):
        name, _, version = line.strip().partition(" ")
        if name:
            yield number, name[:LONGEST], version.strip()[:LONGEST] or "a newer version"


def _unreadable(path: Path, why: str) -> ConfigurationError:
    message = f"cannot be read, so nobody can tell what is kept here: {why}"
    return ConfigurationError([NotUnderstood(str(path), None, "", message, "see to it, or restore a backup")])
