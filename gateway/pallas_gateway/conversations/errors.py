"""Why there is no turn, or no answer. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallas_gateway.store.conversations.records import ThreadBusyError


class RequestError(Exception):
    """A request that is wrong: 400.

    Args:
        field: of the request, in the words of the REST API.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class BusyError(Exception):
    """Another turn of the thread is under way, or so many wait for it already: 409."""


class NoSuchThreadError(Exception):
    """The thread is not there any more: 404."""


class TurnFailedError(Exception):
    """There is no answer.

    Args:
        status: of HTTP.
        type: one word for programs.
        retry_after: seconds, as the header has it.
        field: of the request, where that was wrong.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 502,
        type: str = "turn_failed",  # noqa: A002 - its name in the answer
        retry_after: str | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.retry_after = retry_after
        self.field = field


class TakenError(Exception):
    """Another turn has the thread."""

    def __init__(self, thread: str, by: ThreadBusyError) -> None:
        super().__init__(str(by))
        self.thread = thread
        self.turn = by.turn
        self.process = by.process
