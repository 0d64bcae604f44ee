"""Where a running deployment keeps its control socket and lock, by one rule for supervisor and clients.

Knows paths, owners and modes; opens no socket.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.problems import ConfigurationError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_NAME = "control.sock"
LOCK_NAME = "supervisor.lock"
"""Locked for as long as the supervisor lives; says its process and its `agents.yaml`."""
AGENTS = "agents"
"""Name of the directory of those agents' sockets that have no port."""

SOCKET_PATH_BYTES = 107
"""What `sun_path` of unix(7) holds besides its final NUL."""

DIRECTORY_VARIABLE = "PALLAS_RUNTIME_DIR"

_SLUG_LENGTH = 40
_LONGEST_HOLDER = 8192


class Holder(NamedTuple):
    """Who has, or had, the lock of a runtime directory."""

    pid: int
    file: Path | None
    """The `agents.yaml` that is served, absolute; None: one before 0.9 does not say."""

    def to_bytes(self) -> bytes:
        """The content of the lock's file."""
        return b"%d\n%s\n" % (self.pid, b"" if self.file is None else os.fsencode(self.file))

    @classmethod
    def from_bytes(cls, data: bytes) -> Holder | None:
        """What `to_bytes` wrote; None if it is nothing of the kind."""
        pid, _, file = data.partition(b"\n")
        if not pid.isdigit():
            return None
        file = file.removesuffix(b"\n")
        return cls(int(pid), Path(os.fsdecode(file)) if file.startswith(b"/") else None)


def read_holder(directory: Path) -> Holder | None:
    """What the lock of a runtime directory says, whether it is held or was left behind; None if it cannot be read."""
    try:
        with (directory / LOCK_NAME).open("rb") as file:
            return Holder.from_bytes(file.read(_LONGEST_HOLDER))
    except OSError:
        return None


def runtime_directory(deployment_name: str, environ: Mapping[str, str]) -> Path:
    """The absolute path of the deployment's runtime directory; nothing is created.

    `$PALLAS_RUNTIME_DIR`, else the first of `$RUNTIME_DIRECTORY` (systemd.exec(5)), else
    `$XDG_RUNTIME_DIR/pallas/<name>`, else `$TMPDIR/pallas-<uid>/<name>` with `/tmp` for an unset TMPDIR. An
    empty variable counts as unset, and so does a relative XDG_RUNTIME_DIR, as its specification demands.
    """
    if directory := environ.get(DIRECTORY_VARIABLE):
        return Path(directory).absolute()
    if directory := environ.get("RUNTIME_DIRECTORY", "").split(":")[0]:
        return Path(directory).absolute()
    name = path_name(deployment_name)
    base = environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/"):
        return Path(base, "pallas", name)
    return Path(environ.get("TMPDIR") or "/tmp", f"pallas-{os.getuid()}", name).absolute()  # noqa: S108


def control_socket(deployment_name: str, environ: Mapping[str, str]) -> Path:
    """The path of the deployment's control socket: `control.sock` in its runtime directory.

    Raises:
        ConfigurationError: the path is longer than a unix socket's may be, or another user has made its folder.
    """
    path = runtime_directory(deployment_name, environ) / SOCKET_NAME
    _check_shared(path.parent.parent)
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES:
        message = f"the path has {length} bytes, a unix socket allows {SOCKET_PATH_BYTES}"
        raise _refused(path, message, f"set {DIRECTORY_VARIABLE} to a shorter path")
    return path


def agent_socket(directory: Path, agent: str) -> Path:
    """Path of the unix socket of an agent without a port; names of agents may be too long to be part of it.

    Args:
        directory: the runtime directory.
    """
    return directory / AGENTS / f"{hashlib.sha256(agent.encode()).hexdigest()[:16]}.sock"


def ensure_private(
    directory: Path, variable: str = DIRECTORY_VARIABLE, what: str = "runtime directory"
) -> None:
    """Create the directory with mode 0700, and its missing parents, or make sure that it can be trusted.

    It must be a directory and no symbolic link, belong to this user, and be writable for no one outside its
    group; the same holds, with root as a possible owner, for a parent that is Pallas' own too. The mode of a
    directory that exists already is its maker's choice and is left alone. `variable` names another directory, and
    `what` says what it is.

    Raises:
        ConfigurationError: it cannot be created, or is not to be trusted.
    """
    try:
        missing = [path for path in (directory, *directory.parents) if not os.path.lexists(path)]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
        if directory.parent.name in {"pallas", f"pallas-{os.getuid()}"}:
            _check(directory.parent, {os.getuid(), 0}, variable)
        _check(directory, {os.getuid()}, variable)
    except OSError as error:
        message = f"cannot be made the {what}: {error.strerror}"
        raise _refused(Path(error.filename or directory), message, _remedy(variable)) from None


def is_own(directory: Path) -> bool:
    """Whether the folder of all this user's runtime directories is not another user's, if it is there."""
    try:
        _check_shared(directory)
    except ConfigurationError:
        return False
    return True


def path_name(name: str) -> str:
    """The name as one path component of `[A-Za-z0-9._-]`; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:_SLUG_LENGTH]
    if plain == name != "":
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else digest


def _check_shared(directory: Path) -> None:
    """Where every user may make a folder, such as /tmp, one may have made that of another, with a false socket."""
    if directory.name == f"pallas-{os.getuid()}" and os.path.lexists(directory):
        _check(directory, {os.getuid(), 0}, DIRECTORY_VARIABLE)


def _check(path: Path, owners: set[int], variable: str) -> None:
    status, remedy = path.lstat(), _remedy(variable)
    if stat.S_ISLNK(status.st_mode):
        raise _refused(path, "is a symbolic link", f"remove it, or {remedy}")
    if not stat.S_ISDIR(status.st_mode):
        raise _refused(path, "is not a directory", f"remove it, or {remedy}")
    if status.st_uid not in owners:
        raise _refused(path, f"belongs to another user (uid {status.st_uid})", remedy)
    if status.st_mode & stat.S_IWOTH:
        raise _refused(path, "is writable for every user", f"run `chmod o-w {path}`, or {remedy}")


def _remedy(variable: str) -> str:
    return f"set {variable} to a directory of your own"


def _refused(path: Path, message: str, remedy: str) -> ConfigurationError:
    return ConfigurationError([Problem(str(path), None, "", message, remedy)])
