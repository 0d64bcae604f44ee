"""The resources of a deployment as they are kept: one file each below its state directory. Reads, and changes nothing.

Knows paths, owners and modes; what a file says is read by `text`. A file that cannot be used is a problem of that one
resource; a folder that cannot be read is one of the configuration, or else all that it holds would look deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from pallas_common import __version__
from pallas_common.problems import ConfigurationError, Problem, quoted
from pallas_registry.reading.files import read_file
from pallas_registry.resources.documents import read_resources
from pallas_registry.resources.model import KINDS, Kind, Resource, ResourceId, ResourceSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

FOLDER = "resources"
KEY_FILE = ".key"
KEY_BYTES = 32
SUFFIX = ".yaml"
TEMPORARY = ".tmp"
"""Ends the name, which begins with a dot, of a file that is not complete yet."""

type Marks = tuple[int, ...]
"""Of a file: another size, time or inode means that it may say something else."""

_NEW_KEY = os.urandom(KEY_BYTES)
"""Counts until one is kept."""

_FOLDER_REMEDY = "give it back to the user that Pallas runs as, or set PALLAS_STATE_DIR to another directory"


def folder_of(state_directory: Path) -> Path:
    """Where the resources are in a state directory."""
    return state_directory / FOLDER


def file_of(state_directory: Path, resource: ResourceId) -> Path:
    """Where a resource is kept."""
    return folder_of(state_directory) / resource.kind / f"{resource.name}{SUFFIX}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResources:
    """What the files say."""

    resources: ResourceSet = field(default_factory=ResourceSet)
    problems: Mapping[ResourceId, tuple[Problem, ...]] = field(default_factory=dict)
    """Of those that cannot be used."""
    key: bytes = field(default=_NEW_KEY, repr=False, compare=False)
    """By which digests of secrets are keyed."""

    def digest(self, secret: Resource, key: str) -> str:
        """What is shown of a secret's value: the same only for that value, in that version of that very secret.

        So nobody finds out another's value by the digests of guesses in a secret of their own.
        """
        kept = secret.metadata
        said = [kept.uid, kept.version] if kept is not None else [str(secret.id), 0]
        return f"hmac-sha256:{self.fingerprint(json.dumps([*said, key, secret.spec['data'][key]]))}"

    def fingerprint(self, value: str) -> str:
        """By what it is told here whether a value is another one; shown to nobody."""
        return hmac.new(self.key, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


class _Known(NamedTuple):
    marks: Marks
    resource: Resource | None
    problems: tuple[Problem, ...]


class ResourceFiles:
    """Reads the resources below a state directory, each file again only when it has changed. Not for an event loop."""

    def __init__(self) -> None:
        self._known: dict[Path, _Known] = {}

    def marks(self, state_directory: Path | None) -> frozenset[tuple[Path, Marks]]:
        """Two that are equal mean that all files say the same. Reads none of them, and never raises."""
        try:
            return frozenset(_files(state_directory))
        except ConfigurationError:
            return frozenset()

    def read(self, state_directory: Path | None) -> KeptResources:
        """All resources that are kept there, by kind and name; none without such a directory.

        Raises:
            ConfigurationError: a folder cannot be read, or is not to be trusted.
        """
        files = dict(_files(state_directory))
        for gone in self._known.keys() - files.keys():
            del self._known[gone]
        for path, marks in files.items():
            if (known := self._known.get(path)) is None or known.marks != marks:
                self._known[path] = _read(path, marks)
        found = {path: self._known[path] for path in sorted(files, key=_place)}
        return KeptResources(
            resources=ResourceSet(known.resource for known in found.values() if known.resource is not None),
            problems={id_of(path): known.problems for path, known in found.items() if known.problems},
            key=kept_key(state_directory) or _NEW_KEY,
        )

    def learn(self, state_directory: Path, written: Iterable[Resource]) -> None:
        """Take these for read that have just been written there."""
        for resource in written:
            path = file_of(state_directory, resource.id)
            with contextlib.suppress(OSError):
                kept = replace(resource, file=str(path), lines={})
                self._known[path] = _Known(_marks(path.lstat()), kept, ())


def id_of(path: Path) -> ResourceId:
    """Which resource is kept there."""
    kind: Kind = path.parent.name  # type: ignore[assignment]  # there are folders of these names alone
    # A file's name may have any bytes, of which not all can be told: such a one is refused, by a name that can.
    name = os.fsencode(path.name).decode("utf-8", "backslashreplace")
    return ResourceId(kind, name.removesuffix(SUFFIX))


def kept_key(state_directory: Path | None) -> bytes | None:
    """By which digests of secrets are keyed; None where none is kept, or somebody else may know it.

    Raises:
        ConfigurationError: there may be one, and it cannot be read.
    """
    if state_directory is None:
        return None
    path = folder_of(state_directory) / KEY_FILE
    try:
        if _complaint(path.lstat(), "secret") is not None:
            return None
        key = bytes.fromhex((read_file(path) or b"").decode("ascii", "replace").strip())
    except (FileNotFoundError, ValueError):
        return None
    except OSError as error:
        raise ConfigurationError(
            [_problem(path, f"cannot be read: {error.strerror}", _FOLDER_REMEDY)]
        ) from None
    return key if len(key) == KEY_BYTES else None


def _place(path: Path) -> tuple[int, str]:
    kind, name = id_of(path)
    return KINDS.index(kind) if kind in KINDS else len(KINDS), name


def _files(state_directory: Path | None) -> Iterator[tuple[Path, Marks]]:
    """The files of resources, whatever is in them, and by what it is seen that they have changed.

    Raises:
        ConfigurationError: a folder cannot be read, or is not to be trusted.
    """
    if state_directory is None:
        return
    folder = folder_of(state_directory)
    for directory in (state_directory, folder, *(folder / kind for kind in _kinds_in(folder))):
        try:
            trusted = _trusted(directory, linked=directory == state_directory)
            if not trusted or directory in (state_directory, folder):
                continue
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                        with contextlib.suppress(FileNotFoundError):  # it has just gone
                            yield directory / entry.name, _marks(entry.stat(follow_symlinks=False))
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            raise ConfigurationError([_problem(directory, message, _FOLDER_REMEDY)]) from None


def _kinds_in(folder: Path) -> Iterator[str]:
    """The kinds, and what else has a folder of its own, as a kind does that a newer version knows."""
    yield from KINDS
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        yield from sorted(
            entry.name
            for entry in entries
            if entry.name not in KINDS
            and not entry.name.startswith(".")
            and entry.is_dir(follow_symlinks=False)
        )


def _trusted(directory: Path, *, linked: bool) -> bool:
    """Whether the folder is there.

    Raises:
        ConfigurationError: it is no folder, or others may write into it.
        OSError: it cannot be looked at.
    """
    try:
        status = directory.stat() if linked else directory.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(status.st_mode):
        message = (
            "is not a folder" if not stat.S_ISLNK(status.st_mode) else "is a symbolic link, not a folder"
        )
        raise ConfigurationError([_problem(directory, message, _FOLDER_REMEDY)])
    if status.st_uid not in (os.getuid(), 0) and os.getuid() != 0:
        message = f"belongs to another user (uid {status.st_uid})"
        raise ConfigurationError([_problem(directory, message, _FOLDER_REMEDY)])
    if status.st_mode & stat.S_IWOTH:
        message = "is writable for every user"
        raise ConfigurationError([_problem(directory, message, f"run `chmod o-w {directory}`")])
    return True


def _marks(found: os.stat_result) -> Marks:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode, found.st_uid


def _read(path: Path, marks: Marks) -> _Known:
    """What the file says, if it is what Pallas writes or a person's change of it."""
    id_ = id_of(path)

    def refused(*problems: Problem, resource: Resource | None = None) -> _Known:
        return _Known(marks, resource, problems)

    if id_.kind not in KINDS:
        message = f"is of the kind {quoted(id_.kind)}, which this version ({__version__}) does not know"
        remedy = "start the version that has kept it, or move its folder away"
        return refused(_problem(path, message, remedy))
    try:
        complaint = _complaint(path.lstat(), id_.kind)
        data = None if complaint is not None else read_file(path)
    except ConfigurationError as error:
        return refused(*error.problems)
    except OSError as error:
        return refused(_problem(path, f"cannot be read: {error.strerror}", "see what is there"))
    if complaint is not None or data is None:
        return refused(_problem(path, *(complaint or ("is gone", "apply the resource again"))))
    read = read_resources(data, str(path))
    if read.problems or len(read.resources) != 1:
        message = f"holds {len(read.resources)} resources" if read.resources else "holds no resource"
        remedy = "keep one in each file, and apply the others"
        return refused(*(read.problems or (_problem(path, message, remedy),)))
    resource = read.resources[0]
    if resource.id != id_:
        message = f"describes {quoted(str(resource.id))}, and is where {quoted(str(id_))} is kept"
        return refused(_problem(path, message, "move it to its place, or `pallasctl apply -f` it"))
    return _Known(marks, resource, ())


def _complaint(status: os.stat_result, kind: Kind) -> tuple[str, str] | None:
    """What is wrong with who may do what with the file, and what to do about it."""
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link", "put the file itself there"
    if not stat.S_ISREG(status.st_mode):
        return "is not a file", "remove it"
    if status.st_uid not in (os.getuid(), 0) and os.getuid() != 0:
        return f"belongs to another user (uid {status.st_uid})", "give it to the user that Pallas runs as"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "may be written by other users", "run `chmod 600` on it, and look at what it says"
    if kind == "secret" and status.st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return "may be read by other users", "run `chmod 600` on it, and change the secret"
    return None


def _problem(path: Path, message: str, remedy: str) -> Problem:
    return Problem(str(path), None, "", message, remedy)
