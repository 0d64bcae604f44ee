"""Resources into files and out of them: each is written whole or not at all, also by a supervisor that is killed.

Knows paths and system calls; what a file says is the registry's, and so is where it is.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.problems import ConfigurationError
from pallas_registry.environment.requirements import require
from pallas_registry.environment.state_directory import ensure_private
from pallas_registry.reading.files import MAXIMUM_BYTES
from pallas_registry.resources.files import KEY_FILE, TEMPORARY, file_of, folder_of, kept_key
from pallas_registry.resources.model import KINDS, REFERRED_FIRST, Resource, ResourceId
from pallas_registry.resources.text import to_file_text
from pallas_supervisor.agents.errors import NotKeptError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_THREADS = 4
"""That wait for the disk together, so that it may write for several at a time."""

_log = get_logger("pallas.supervisor.resources")


def keep(state_directory: Path, put: Sequence[Resource], gone: Sequence[ResourceId], key: bytes) -> None:
    """Write these resources, and remove those; when it returns, all of it is on the disk.

    Whoever is killed meanwhile leaves each of them as it was or as it is to be, and none that refers to one that is
    still to come.

    Args:
        key: by which digests of secrets are keyed; kept, where none is yet.

    Raises:
        NotKeptError: it cannot be done; nothing was changed.
    """
    try:
        ensure_private(state_directory)
        _make_folders(state_directory)
        require(state_directory, (f"resources/{each.id.kind}" for each in put))
        before = _contents(file_of(state_directory, each) for each in (*gone, *(each.id for each in put)))
        if kept_key(state_directory) is None:
            path = folder_of(state_directory) / KEY_FILE
            _rename(_write_all({path: f"{key.hex()}\n"}))
        written = _write_all({file_of(state_directory, each.id): to_file_text(each) for each in put})
    except ConfigurationError as error:
        raise NotKeptError(f"{error}; nothing was changed") from None
    except OSError as error:
        raise _not_kept(error) from None
    try:
        for kind in REFERRED_FIRST:  # none gets its name before what it refers to
            folder = folder_of(state_directory) / kind
            _rename({path: temporary for path, temporary in written.items() if path.parent == folder})
        for kind in reversed(REFERRED_FIRST):
            _remove([file_of(state_directory, each) for each in gone if each.kind == kind])
    except OSError as error:
        _unlink(written.values())
        _put_back(before)
        raise _not_kept(error) from None


def remove_leftovers(state_directory: Path) -> None:
    """Remove what a supervisor has left that was killed while it wrote. Never raises."""
    folder = folder_of(state_directory)
    for directory in (folder, *(folder / kind for kind in KINDS)):
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            _unlink([directory / each.name for each in entries if _is_temporary(each.name)])


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(TEMPORARY)


def _make_folders(state_directory: Path) -> None:
    folder = folder_of(state_directory)
    for directory in (folder, *(folder / kind for kind in KINDS)):
        if not directory.is_dir():
            directory.mkdir(mode=0o700)
            _sync_folder(directory.parent)


def _contents(paths: Iterable[Path]) -> dict[Path, bytes | None]:
    """What each file holds, None where there is none; without what can be no resource.

    A pipe or a device at a resource's place would be read for ever, and who applies the resource wants it gone.
    """
    found: dict[Path, bytes | None] = {}
    for path in paths:
        try:
            status = path.lstat()
        except FileNotFoundError:
            found[path] = None
            continue
        if stat.S_ISREG(status.st_mode) and status.st_size <= MAXIMUM_BYTES:
            found[path] = path.read_bytes()
    return found


def _write_all(texts: Mapping[Path, str]) -> dict[Path, Path]:
    """Write each text beside its path; the temporary file of each, on the disk.

    Raises:
        OSError: one cannot be written; none is left.
    """
    written = {path: path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}") for path in texts}
    try:
        with ThreadPoolExecutor(_THREADS) as threads:
            for _ in threads.map(_write, written.values(), texts.values()):
                pass
    except OSError:
        _unlink(written.values())
        raise
    return written


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(descriptor)


def _rename(written: Mapping[Path, Path]) -> None:
    for path, temporary in written.items():
        temporary.rename(path)
    for folder in {path.parent for path in written}:
        _sync_folder(folder)


def _remove(paths: Iterable[Path]) -> None:
    folders = set()
    for path in paths:
        path.unlink(missing_ok=True)
        folders.add(path.parent)
    for folder in folders:
        _sync_folder(folder)


def _put_back(before: Mapping[Path, bytes | None]) -> None:
    """Undo what was done until it failed."""
    for path, content in before.items():
        try:
            if content is None:
                path.unlink(missing_ok=True)
            elif _contents([path]) != {path: content}:
                _rename(_write_all({path: content.decode()}))
        except (OSError, UnicodeDecodeError) as error:
            _log.error(f"{path} could not be made what it was: {error}")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _not_kept(error: OSError) -> NotKeptError:
    what = f"{error.filename}: " if error.filename else ""
    return NotKeptError(
        f"{what}cannot be written: {error.strerror or error}; nothing was changed: make room or mend the directory, "
        "and apply it again"
    )
