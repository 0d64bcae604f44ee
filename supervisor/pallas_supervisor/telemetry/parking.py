"""What an idle agent has counted, put away: its values files become one small archive beside the directory of all.

Knows files and archives; the caller sees to it that nobody writes or folds the files meanwhile.

Why: a slot has some 64 KiB for each kind of metric, and each file costs a scrape about 1 ms. An archive is 2 to 4 KiB.
"""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.metrics.file_names import FOLDED, file_name, parse_name
from pallas_common.metrics.fold import UNFINISHED, fold, remove, set_aside, write_reserved
from pallas_common.metrics.mmap_file import DamagedError, ValuesFile, encode
from pallas_common.metrics.series_cache import FAST
from pallas_common.metrics.served_series import LIVE_GAUGES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MOST = 1 << 22
"""Bytes of an agent's files that are put away; larger ones stay where they are, and a scrape shows them as before."""

_log = get_logger("pallas.supervisor.metrics")


def put_away(files: Iterable[Path], archive: Path) -> bool:
    """Put the files of an agent's slots into its archive and remove them; False if they are too large for that.

    Gauges that went with their process are dropped. A damaged file is set aside. Nothing is removed before all of it is
    in the archive.

    Raises:
        OSError: there is no room, or a file cannot be read.
    """
    found = sorted(files)
    if sum(path.lstat().st_size for path in found) > MOST:
        return False
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as members:
        for path in found:
            named = parse_name(path.name)
            if named is not None and named.kind not in LIVE_GAUGES and (data := _contents(path)) is not None:
                members.writestr(path.name, data)
    unfinished = archive.with_name(archive.name + UNFINISHED)
    try:
        unfinished.write_bytes(written.getbuffer())
        unfinished.rename(archive)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    for path in found:
        with suppress(OSError):  # the one that is brought back takes its place
            remove(path)
    return True


def bring_back(archive: Path, directory: Path) -> None:
    """Make the files again that were put away, all or none, and remove the archive; nothing if there is none.

    Raises:
        OSError: there is no room, or the directory cannot be written; the archive stays.
    """
    made: list[tuple[Path, Path]] = []
    try:
        for name, data in _members(archive):
            path = directory / name
            unfinished = path.with_name(name + UNFINISHED)
            made.append((unfinished, path))
            write_reserved(unfinished, data)
    except OSError:
        for unfinished, _ in made:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
        raise
    for unfinished, path in made:
        unfinished.rename(path)
    archive.unlink(missing_ok=True)


def add_late(archive: Path, directory: Path) -> None:
    """Add what could not be brought back before the agent's next worker began, to what that counts by now.

    It goes where the counts of processes go that workers forked and that have ended. A gauge is the worker's by now.

    Raises:
        OSError: there is no room, or the directory cannot be written; what is not added yet is added the next time.
    """
    own = archive.stem
    for name, data in _members(archive):
        write_reserved(archive.with_name(name), data)
    archive.unlink(missing_ok=True)
    for path in sorted(archive.parent.glob(f"*_{own}s*.db")):
        named = parse_name(path.name)
        if named is not None and named.kind in FAST:
            fold(named.kind, [path], directory / file_name(named.kind, named.slot, FOLDED))
        else:
            remove(path)


def _contents(path: Path) -> bytes | None:
    """What a values file says, as a whole file; None for a damaged one, which is set aside."""
    file = ValuesFile(str(path), parse=lambda _: None)  # whatever its keys say
    try:
        if not path.is_file() or path.is_symlink():
            raise DamagedError("it is no regular file")  # noqa: TRY301 - treated like all the rest
        file.read()
    except FileNotFoundError:
        return None
    except DamagedError as error:
        _log.warning(f"{path} is set aside: {error}")
        set_aside(path)
        return None
    return encode(zip(file.keys, file.values, file.timestamps, strict=True))


def _members(archive: Path) -> list[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(archive) as members:
            return [(name, members.read(name)) for name in members.namelist()]
    except FileNotFoundError:
        return []
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError) as error:
        _log.warning(f"{archive} is damaged, and what it had is lost: {error}")
        archive.unlink(missing_ok=True)
        return []
