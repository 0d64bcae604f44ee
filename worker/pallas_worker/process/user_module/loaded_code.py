"""Which files of the user's this process has loaded, and what they were: for others to notice that they changed.

Counted is what is there once the agent's source is loaded. What is imported later, in the middle of a call, is not: it
is read when it is needed, and may be newer than the rest anyway.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import stat
import sys
from typing import TYPE_CHECKING

from pallas_common.protocol.reports import CodeReport, FileMark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pallas_worker.process.user_module.errors import UserCode

MOST_FILES = 500
"""Files that are told."""

FILES_OF_A_REPORT = 40
LONGEST_PATH = 1000
"""Bytes of a path as JSON. A report stays below what one line may have, 64 KiB."""

MAXIMUM_BYTES = 1 << 20
"""Of a file whose content is looked at; of a larger one, size and time count."""

_last_library: str | None = None
"""The newest of the modules that are known to be no user's; None if nothing is known."""


def pass_over_libraries() -> None:
    """Count nothing of what is imported by now, here and in all processes that are forked from this one.

    For a zygote, before it imports a module of a user's. Why: to look at each of thousands of modules writes to the
    memory that they share with the zygote, which was a third of all pages that a worker copied at its start.
    """
    global _last_library
    _last_library = next(reversed(sys.modules))


def code_reports(code: UserCode, files: Iterable[Path]) -> Iterator[CodeReport]:
    """What was loaded below the working directory: modules of no library, and `files`."""
    marks = [mark for file in _loaded(code, files) if (mark := _mark(code, file)) is not None][:MOST_FILES]
    for at in range(0, len(marks), FILES_OF_A_REPORT):
        yield CodeReport(files=tuple(marks[at : at + FILES_OF_A_REPORT]))


def _loaded(code: UserCode, files: Iterable[Path]) -> list[str]:
    found = dict.fromkeys(str(file) for file in files)
    for name in _names():
        file = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(file, str):
            found[file] = None
    return [file for file in found if code.owns(file)]


def _names() -> list[str]:
    """The modules that are no zygote's, in the order of their import."""
    if _last_library is None:
        return list(sys.modules)
    # Of the newest first, and in C alone: a thread that imports meanwhile cannot come between.
    return list(itertools.takewhile(_last_library.__ne__, reversed(sys.modules)))[::-1]


def _mark(code: UserCode, file: str) -> FileMark | None:
    path = code.short(file)
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as opened:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or len(json.dumps(path)) > LONGEST_PATH:
                return None
            data = opened.read(MAXIMUM_BYTES + 1)
    except (OSError, ValueError):
        return None
    digest = None if len(data) > MAXIMUM_BYTES else hashlib.blake2b(data, digest_size=16).hexdigest()
    return FileMark(path=path, state=f"{found.st_size} {found.st_mtime_ns}", digest=digest)
