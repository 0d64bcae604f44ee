"""A disk of a few megabytes that can be filled to the last byte: a tmpfs, which takes root to mount.

Knows mount(8); nothing of who writes there.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK = 64 * 1024


class SmallDisk:
    """A mounted disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    @contextmanager
    def full(self) -> Iterator[None]:
        """No byte is left meanwhile."""
        try:
            with self._filler.open("wb", buffering=0) as file:
                for size in (BLOCK, 1):
                    self._fill(file.fileno(), size)
            yield
        finally:
            self._filler.unlink(missing_ok=True)

    @staticmethod
    def _fill(descriptor: int, size: int) -> None:
        data = bytes(size)
        try:
            while True:
                os.write(descriptor, data)
        except OSError:
            return


@contextmanager
def small_disk(path: Path, mebibytes: int) -> Iterator[SmallDisk]:
    """Mount one at `path`, a folder to be made, for as long as the context lasts.

    Raises:
        RuntimeError: it cannot be mounted.
    """
    path.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", "pallas-test", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"a disk that can be filled needs root: {done.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
