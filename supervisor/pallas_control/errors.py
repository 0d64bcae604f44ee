"""How a request to the supervisor fails: exceptions, whose messages name what is wrong and the way out.

Knows nothing of command lines, sockets or documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class ControlError(Exception):
    """The supervisor could not be asked, or did not do it. `message` is one line, `details` are lines below it."""

    def __init__(self, message: str, *, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)


class UnreachableError(ControlError):
    """No supervisor answers on the control socket."""


class ForbiddenError(UnreachableError):
    """The control socket is there, and this user may not use it."""


class NamesakeError(ControlError):
    """The `agents.yaml` that the command line goes by is not the one that runs under its name.

    Args:
        name: of the deployment.
        theirs: the file that runs.
        ours: the file that was gone by.
    """

    def __init__(self, name: str, theirs: Path, ours: Path) -> None:
        super().__init__(
            f"{name} runs from {theirs}, and this is {ours.absolute()}: nothing was asked of it; go to its "
            f"folder, or say --deployment {name}; for this one beside it, give it another `name:`"
        )


class RefusedError(ControlError):
    """The supervisor answered that it will not or cannot; `status` is that of HTTP, `document` its whole answer."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        message = str(document.get("error") or f"the supervisor answered with HTTP status {status}")
        super().__init__(message, details=[str(line) for line in document.get("problems") or ()])
        self.status = status
        self.document = document


class UnknownAgentError(RefusedError):
    """An agent that was named is not deployed; the message says which, and what may have been meant."""


class GatewayError(ControlError):
    """The gateway could not be asked."""


class GatewayRefusedError(GatewayError):
    """The gateway answered that it will not or cannot; `status` is that of HTTP, `field` what it complains of."""

    def __init__(self, status: int, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.field = field
