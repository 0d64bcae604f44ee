"""The text of a message as it comes in bytes: bounded, and UTF-8.

Pure.
"""

from __future__ import annotations

LONGEST_TEXT = 16 * 1024 * 1024
"""Bytes of one message; half of what an agent takes by default, history and images included."""


class UnreadableError(Exception):
    """A text that cannot be sent; the message says why."""


def decoded(data: bytes, source: str) -> str:
    """The text; `source` names where it is from in errors.

    Raises:
        UnreadableError: it is too long, or not UTF-8.
    """
    if len(data) > LONGEST_TEXT:
        raise UnreadableError(f"{source} has more than {LONGEST_TEXT // 1024**2} MiB")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{source} is not UTF-8 (byte {error.start})") from None
