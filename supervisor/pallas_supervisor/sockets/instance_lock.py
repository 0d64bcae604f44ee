"""One supervisor a deployment: the lock beside the control socket, and who holds it; and one against cleaners.

Knows files and flock(2).
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger

if TYPE_CHECKING:
    from pathlib import Path

_log = get_logger("pallas.supervisor")


class AlreadyRunningError(Exception):
    """Another supervisor runs this deployment; the message says which process and how to reach it."""


def lock_instance(directory: Path, deployment: str) -> int:
    """Take the lock of a runtime directory; the descriptor holds it for as long as it is open.

    Raises:
        AlreadyRunningError: with the holder's process ID.
    """
    descriptor = os.open(directory / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        who = f"process {holder}" if holder else "another process"
        raise AlreadyRunningError(
            f"{deployment} is running already, as {who}; `pallasctl status` shows it. For a second one beside it, "
            f"set PALLAS_RUNTIME_DIR"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
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
