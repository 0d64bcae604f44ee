"""New files in a user's project: all of them whole, or none, and never in the place of another one."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""What a file system says that knows no hard links."""


def write_new(directory: Path, files: Mapping[str, str]) -> None:
    """Write `files` below `directory`, which is made if it is not there; the last one appears last.

    Args:
        files: texts by path relative to `directory`.

    Raises:
        FileExistsError: one of them is there already; nothing has changed.
        OSError: one cannot be written; nothing has changed.
    """
    made: list[Path] = []
    try:
        for path, text in files.items():
            target = directory / path
            _make_folders(target.parent, made)
            _write(target, text)
            made.append(target)
    except BaseException:
        for each in reversed(made):
            with contextlib.suppress(OSError):
                if each.is_dir():
                    each.rmdir()
                else:
                    each.unlink()
        raise


def _make_folders(folder: Path, made: list[Path]) -> None:
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir()
        made.append(each)


def _write(target: Path, text: str) -> None:
    """A file that appears with all of its content: written beside its place, and linked to it."""
    data = text.encode()
    beside = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        _write_exclusively(beside, data)
        try:
            os.link(beside, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _write_exclusively(target, data)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def _write_exclusively(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, with the permissions that the umask leaves; no trace if that fails."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink()
        raise
