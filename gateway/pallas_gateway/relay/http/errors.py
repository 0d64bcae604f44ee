"""Why another server gives no answer. The messages are for people, and hold nothing of a request."""

from __future__ import annotations


class RelayError(Exception):
    """There is no answer from another server."""


class NoConnectionError(RelayError):
    """Nothing answers there: nothing has been sent."""


class LostError(RelayError):
    """The connection ended before the whole answer was there.

    Args:
        untouched: whether not one byte of an answer had come.
    """

    def __init__(self, message: str, *, untouched: bool = False) -> None:
        super().__init__(message)
        self.untouched = untouched


class LateError(RelayError):
    """No answer came in time."""


class BusyError(RelayError):
    """Too many requests wait for a connection already: nothing has been sent."""


class WrongAnswerError(RelayError):
    """What came is no answer, or is too large."""
