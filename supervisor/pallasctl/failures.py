"""How pallasctl, and a verb of pallas, fails: one line on stderr, its details below, and an exit status that means it.

Knows click and the exit statuses; no verb and no request.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click

from pallas_common.terminal_text import terminal_line, terminal_text

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_RUNNING = 3
"""Of `status` only: something that should run does not."""
EXIT_UNKNOWN = 4
"""Of `status` only: it could not find out."""
EXIT_INTERRUPTED = 130
"""128 and the number of SIGINT, as a shell says it."""


class Failure(click.ClickException):
    """The verb could not do what was asked. The message is one line: what is wrong and the way out."""

    exit_code = EXIT_FAILED

    def __init__(self, message: str, *, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.details = details
        # Not when it is shown: click has left the context by then.
        context = click.get_current_context(silent=True)
        self._program = (context.find_root().info_name if context is not None else None) or "pallasctl"

    def show(self, file: IO[Any] | None = None) -> None:
        """Writes the message and its details to stderr."""
        click.echo(f"{self._program}: {terminal_line(self.message)}", file=file, err=True)
        for line in self.details:
            click.echo(f"  {terminal_text(line)}", file=file, err=True)


class StatusUnknown(Failure):
    """`status` could not find out."""

    exit_code = EXIT_UNKNOWN


class NoSuchAgent(Failure):
    """An agent that was named is not deployed: wrong usage, as a mistyped verb is."""

    exit_code = EXIT_USAGE


class InvalidConfiguration(Failure):
    """What `check` read is wrong; the same exit status as `pallas` has for it."""

    exit_code = EXIT_USAGE
