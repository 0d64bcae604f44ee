"""One file of a configuration, opened and read safely, whatever lies at its path.

A path may lead to a pipe without a writer, to a device, or to a file without an end. None of them blocks the reader,
and each is refused with what it is and what to do. Reading may still take as long as a file system does: not for an
event loop.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError, Problem

if TYPE_CHECKING:
    from pathlib import Path

MAXIMUM_BYTES = 1 << 20
"""A file beyond this is taken for a mistake."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OTHER_ENCODINGS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""By their byte order marks, the longer ones first."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_file(path: Path, remedy: str = "put a regular file there, or remove it") -> bytes | None:
    """The content of the regular file at `path`, or of the one that a symbolic link leads to; None without any.

    `remedy` is what to do where something else is there.

    Raises:
        ConfigurationError: there is something that cannot be read, is no regular file, or is too large.
    """
    try:
        _refuse_kind(
            path, path.stat().st_mode, remedy
        )  # before it is opened: opening a device can do something
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            _refuse_kind(path, found.st_mode, remedy)
            data = file.read(MAXIMUM_BYTES + 1) or b""
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        grant = "grant read permission, or run as its owner"
        raise _refused(path, "may not be read by this user", grant) from None
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise _refused(path, f"cannot be read: {reason}", remedy) from None
    _refuse_size(str(path), max(len(data), found.st_size))
    return data


def text_of(data: bytes, file: str) -> str:
    """The text in the content of a configuration file, without the byte order mark that some editors write.

    `file` names the file in problems.

    Raises:
        ConfigurationError: too large, not UTF-8, or with a NUL character.
    """

    def refuse(position: int, message: str, remedy: str) -> ConfigurationError:
        line = data.count(b"\n", 0, position) + 1
        return ConfigurationError([Problem(file, line, "", message, remedy)])

    _refuse_size(file, len(data))
    for mark, name in _OTHER_ENCODINGS.items():
        if data.startswith(mark):
            raise refuse(0, f"is {name}", "save the file as UTF-8")
    data = data.removeprefix(_BYTE_ORDER_MARK)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"the byte 0x{data[error.start]:02x} is not UTF-8"
        raise refuse(error.start, message, "save the file as UTF-8") from None
    if (position := data.find(b"\0")) >= 0:
        raise refuse(position, "holds a NUL character", "remove it, or see whether this is the right file")
    return text


def _refuse_kind(path: Path, mode: int, remedy: str) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise _refused(path, f"is {kind}, not a file", remedy)


def _refuse_size(file: str, size: int) -> None:
    if size > MAXIMUM_BYTES:
        message = f"has {size} bytes, more than any real configuration"
        raise ConfigurationError([Problem(file, None, "", message, "check that it is the right file")])


def _refused(path: Path, message: str, remedy: str) -> ConfigurationError:
    return ConfigurationError([Problem(str(path), None, "", message, remedy)])
