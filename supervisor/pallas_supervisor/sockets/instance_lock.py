"""One supervisor a deployment: the lock beside the control socket, and who holds it; and one against cleaners.

Knows files and flock(2).
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_registry.environment.runtime_directory import LOCK_NAME, Holder, read_holder

if TYPE_CHECKING:
    from pathlib import Path

_log = get_logger("pallas.supervisor")


class AlreadyRunningError(Exception):
    """Another supervisor runs this deployment; the message says which process and how to reach it."""


def lock_instance(directory: Path, deployment: str, file: Path) -> int:
    """Take the lock of a runtime directory; the descriptor holds it for as long as it is open.

    Args:
        file: the `agents.yaml` of this one, which is left there for those who look for it.

    Raises:
        AlreadyRunningError: with the holder's process ID, and its `agents.yaml`.
    """
    descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        holder = read_holder(directory)
        who = "another process" if holder is None else f"process {holder.pid}"
        where = "" if holder is None or holder.file is None else f", from {holder.file}"
        raise AlreadyRunningError(
            f"{deployment} is running already, as {who}{where}; `pallasctl status` shows it. For a second one beside "
            "it, set PALLAS_RUNTIME_DIR"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, Holder(os.getpid(), file.absolute()).to_bytes(), 0)
    return descriptor


def keep_cleaners_off(directory: Path) -> int:
    """Lock a directory, for as long as the descriptor is open, so that no cleaner looks into it.

    systemd-tmpfiles skips a directory that has a lock, with everything below it (tmpfiles.d(5), "Age"): it would
    remove metrics files, which are written by mapping and so seem to be old.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:  # a cleaner is at it just now, or the file system has no locks
        _log.warning(f"{directory} is not kept from cleaners of temporary files: {error}")
    return descriptor
