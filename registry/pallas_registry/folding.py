"""Folding: the values files of processes that have ended become one, so that nothing is lost and nothing piles up.

Knows what may be added up; the caller knows that the writers have ended and that nobody reads meanwhile.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from pallas_registry.logs import get_logger
from pallas_registry.shard import FAST
from pallas_registry.values_file import DamagedError, ValuesFile, encode

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

UNFINISHED = ".new"
"""How a file's name ends until all of it is there."""

_log = get_logger("pallas.metrics")


def fold(kind: str, ended: Iterable[Path], into: Path) -> None:
    """Add what `ended` say to `into` and remove them; a gauge tells of its process and goes with it.

    Damaged files are set aside. While `into` is being made, its name with `UNFINISHED` is there.

    Raises:
        OSError: there is no room, or the directory cannot be written; nothing is lost.
    """
    ended = list(ended)
    if kind in FAST:
        totals: dict[bytes, float] = {}
        for path in (into, *ended):
            for key, value in _contents(path):
                totals[key] = totals.get(key, 0.0) + value
        unfinished = into.with_name(into.name + UNFINISHED)
        try:
            write_reserved(unfinished, encode((key, value, 0.0) for key, value in totals.items()))
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        for path in ended:
            path.unlink(missing_ok=True)
        unfinished.rename(into)
    else:
        for path in ended:
            path.unlink(missing_ok=True)


def write_reserved(path: Path, data: bytes) -> None:
    """Write a file whose blocks are all on the disk; a mapped one that has holes kills its writer on a full disk.

    Raises:
        OSError: there is no room, or the directory cannot be written.
    """
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, len(data))
        file.write(data)


def set_aside(path: Path) -> None:
    """Give a damaged file a name under which nobody reads it, in the place of the last one that was.

    Raises:
        OSError: it cannot be renamed.
    """
    aside = path.with_name(f"{path.name}.damaged")
    if aside.exists():
        remove(aside)
    path.rename(aside)


def remove(path: Path) -> None:
    """Remove a file, or a directory with all that is in it.

    Raises:
        OSError: it cannot be removed.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _contents(path: Path) -> list[tuple[bytes, float]]:
    file = ValuesFile(str(path))
    try:
        file.read()
    except FileNotFoundError:
        return []
    except DamagedError as error:
        _log.warning("%s is set aside: %s", path, error)
        set_aside(path)
        return []
    return list(zip(file.keys, file.values, strict=True))
