"""Image files: told by their content, and refused with a reason."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

import pytest

from pallas_common.protocol.agent.images import MAX_IMAGE_BYTES, MAX_IMAGES
from pallasctl.verbs.talk.images import ImageError, read_image, read_images
from support.data.image_data import BASE64, CONTENT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mime_type", CONTENT)
def test_by_its_content(tmp_path: Path, mime_type: str) -> None:
    path = tmp_path / "image.txt"
    path.write_bytes(CONTENT[mime_type])
    assert read_image(str(path)) == {"data": BASE64[mime_type], "mime_type": mime_type}


def test_as_large_as_may_be(tmp_path: Path) -> None:
    path = tmp_path / "image.gif"
    path.write_bytes(b"GIF89a".ljust(MAX_IMAGE_BYTES, b"x"))
    assert len(base64.b64decode(read_image(str(path))["data"])) == MAX_IMAGE_BYTES
    path.write_bytes(b"GIF89a".ljust(MAX_IMAGE_BYTES + 1, b"x"))
    with pytest.raises(ImageError, match="too large; an image may have 20 MiB"):
        read_image(str(path))


def test_what_is_no_image(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    path.write_text("<svg>")
    with pytest.raises(ImageError, match=r"image\.png: by its content not a PNG, JPEG, GIF or WebP image"):
        read_image(str(path))


def test_what_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, said in [(pipe, "not a file"), (tmp_path, "Is a directory"), (tmp_path / "no", "no such file")]:
        with pytest.raises(ImageError, match=said):
            read_image(str(path))
    with pytest.raises(ImageError, match="cannot be read"):
        read_image("a\0b")


def test_too_many() -> None:
    with pytest.raises(ImageError, match="21 images; 20 are allowed in one message"):
        read_images(["x"] * (MAX_IMAGES + 1))
