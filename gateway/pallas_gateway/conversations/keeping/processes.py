"""Which processes of the gateway are there: each holds a lock on a file of its own as long as it lives.

In a replacement two of them work on turns of one store. What a dead one has left is known by its lock, which the kernel
takes back however it ended (flock(2)). The files are in the deployment's state directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from pathlib import Path

FOLDER = "gateway-processes"


class Processes:
    """The own process among the others.

    Args:
        state_directory: of the deployment.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, state_directory: str | Path) -> None:
        self._folder = Path(state_directory, FOLDER)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self.own = uuid.uuid4().hex
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        # Locked before it has its name: nobody must find it without its lock, and take its process for dead.
        path = self._folder / f".{self.own}"
        self._descriptor = os.open(path, flags, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        path.rename(self._path(self.own))

    def is_alive(self, process: str) -> bool:
        """Whether the process of that name still is."""
        if process == self.own:
            return True
        if not (process.isalnum() and process.isascii()):
            return False
        path = self._path(process)
        try:
            if self._holds(path):
                return True
        except OSError:
            return False
        path.unlink(missing_ok=True)
        return False

    def left(self) -> dict[str, float]:
        """The processes that are dead and have not said so, with when each began, in seconds since the epoch."""
        found = {}
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):
                began = path.stat().st_mtime
                if path.name.isalnum() and path.name != self.own and not self._holds(path):
                    found[path.name] = began
        return found

    def close(self) -> None:
        """The own one works on nothing any more."""
        with contextlib.suppress(OSError):
            self._path(self.own).unlink()
        os.close(self._descriptor)

    @staticmethod
    def _holds(path: Path) -> bool:
        """Whether somebody holds the lock of a file.

        Raises:
            OSError: it cannot be opened.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)

    def _path(self, process: str) -> Path:
        return self._folder / process
