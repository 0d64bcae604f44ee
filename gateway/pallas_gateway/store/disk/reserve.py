"""Bytes that are kept free on a disk: a file of that size, removed in the moment in which they are needed.

Knows a file; nothing of who needs the room. Several processes may share one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Reserve:
    """The file.

    Args:
        size: its bytes.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size

    @property
    def is_there(self) -> bool:
        """Whether the bytes are kept."""
        try:
            return self._path.lstat().st_size >= self._size
        except OSError:
            return False

    def keep(self) -> None:
        """Keep the bytes, if they are not kept already.

        Raises:
            OSError: there is no room for them.
        """
        if self.is_there:
            return
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self._size)
        except OSError:
            self._path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)

    def free(self) -> bool:
        """Give the bytes to whoever writes next; whether there were any."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        return True
