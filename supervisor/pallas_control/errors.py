"""How pallasctl fails: one line on stderr, its details below, and an exit status that means it.

Knows nothing of verbs, sockets or documents.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click

from pallas_common.terminal_text import terminal_line, terminal_text

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_RUNNING = 3
"""Of `status` only: something that should run does not."""
EXIT_UNKNOWN = 4
"""Of `status` only: nobody is there to ask."""
EXIT_INTERRUPTED = 130
"""128 and the number of SIGINT, as a shell says it."""


class Failure(click.ClickException):
    """The verb could not do what was asked. The message is one line: what is wrong and the way out."""

    exit_code = EXIT_FAILED

    def __init__(self, message: str, *, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.details = tuple(details)

    def show(self, file: IO[Any] | None = None) -> None:
        """Writes the message and its details to stderr."""
        click.echo(f"pallasctl: {terminal_line(self.message)}", file=file, err=True)
        for line in self.details:
            click.echo(f"  {terminal_text(line)}", file=file, err=True)


class Unreachable(Failure):
    """No supervisor answers on the control socket."""


class Forbidden(Unreachable):
    """The control socket is there, and this user may not use it."""


class StatusUnknown(Failure):
    """`status` could not find out."""

    exit_code = EXIT_UNKNOWN


class InvalidConfiguration(Failure):
    """What `check` read is wrong; the same exit status as `pallas` has for it."""

    exit_code = EXIT_USAGE


class Refused(Failure):
    """The supervisor answered that it will not or cannot; `document` is its whole answer."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        message = str(document.get("error") or f"the supervisor answered with HTTP status {status}")
        super().__init__(message, details=[str(line) for line in document.get("problems") or ()])
        self.status = status
        self.document = document
