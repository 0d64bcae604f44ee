"""Short texts in the state directory, for its owner alone, written whole.

Knows files; nothing of what they hold.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from pallas_gateway.store.errors import StoreUnavailableError

if TYPE_CHECKING:
    from pathlib import Path


def write_line(path: Path, text: str) -> None:
    """The whole file or nothing, for its owner alone, on the disk when this returns.

    Raises:
        StoreUnavailableError: the file cannot be written.
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{text}\n")
                file.flush()
                os.fsync(descriptor)
            new.rename(path)
        finally:
            new.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StoreUnavailableError(
            f"{path} cannot be written, nothing was changed: {error.strerror}; make room, or look at the permissions"
        ) from error
