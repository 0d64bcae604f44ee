"""Image files on their way into a message: what they are by their content, and what an agent would refuse.

Knows files; nothing of commands.
"""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.problems import counted
from pallas_common.protocol.agent.images import MAX_IMAGE_BYTES, MAX_IMAGES, image_type
from pallas_control.mcp.messages import ImageDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

_KINDS = "a PNG, JPEG, GIF or WebP image"


class ImageError(Exception):
    """A file that cannot be sent as an image; the text says which one and why."""


def read_images(paths: Sequence[str]) -> list[ImageDocument]:
    """The files as images of one message.

    Raises:
        ImageError: one of them cannot be sent, or there are too many.
    """
    if len(paths) > MAX_IMAGES:
        raise ImageError(f"{counted(len(paths), 'image')}; {MAX_IMAGES} are allowed in one message")
    return [read_image(path) for path in paths]


def read_image(path: str) -> ImageDocument:
    """The file as an image of a message, whatever its name ends with.

    Raises:
        ImageError: it cannot be read, is no image, or is too large.
    """
    try:
        content = _content(Path(path))
    except FileNotFoundError:
        raise ImageError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise ImageError(f"{path}: cannot be read: {reason}") from None
    if len(content) > MAX_IMAGE_BYTES:
        raise ImageError(f"{path}: too large; an image may have {MAX_IMAGE_BYTES // 1024**2} MiB")
    if (mime_type := image_type(content)) is None:
        raise ImageError(f"{path}: by its content not {_KINDS}; convert it to one")
    return ImageDocument(data=base64.b64encode(content).decode(), mime_type=mime_type)


def _content(path: Path) -> bytes:
    """The file up to one byte more than is allowed; a pipe or a device does not block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ImageError(f"{path}: not a file")
        return file.read(MAX_IMAGE_BYTES + 1)
