"""Short texts in a state directory, for its owner alone, read without a link being followed.

Knows files; nothing of what they hold.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = 200
"""Bytes that are read."""


def read_line(path: Path) -> str | None:
    """The text of a file without the white space around it; None if there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(LONGEST) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    return data.decode("ascii", "replace").strip()
