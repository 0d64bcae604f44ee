"""A chat while it lasts: who answers, the parameters and images of the next turn, and turns with their failures.

Knows what may go wrong in a turn; nothing of commands or of input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pallas_control.errors import ControlError
from pallas_control.mcp.errors import CallError
from pallasctl.verbs.talk.backends.backend import Asked
from pallasctl.verbs.talk.chat.display import answering, say_what_is_missing, show_turn
from pallasctl.verbs.talk.chat.settings import Settings
from pallasctl.verbs.talk.terminal.output import complain, note
from pallasctl.verbs.talk.terminal.status_line import StatusLine
from pallasctl.verbs.talk.turn import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pallas_control.mcp.messages import ImageDocument
    from pallasctl.verbs.talk.backends.backend import Backend, Happened, Message, Result

FAILURES = (CallError, ControlError, click.ClickException)
"""What may go wrong with whoever answers."""


class Session:
    """One chat."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.settings = Settings()
        self.images: list[ImageDocument] = []
        """They go with the next message."""
        self._text = answering()

    def turn(self, message: Message | None) -> Result | None:
        """Ask and show the answer; None where there is none, for a reason that has been told.

        Args:
            message: None: the last turn is taken again.
        """
        return self.shown(lambda: self.backend.ask(Asked(message, self.settings.parameters)))

    def shown(self, begin: Callable[[], Generator[Happened | None]]) -> Result | None:
        """Show what happens in a turn that begins so; None where it fails, for a reason that has been told."""
        try:
            waiting = self.backend.note or f"waiting for {self.backend.agent}"
            return show_turn(begin(), self._text, StatusLine(), waiting)
        except FAILURES as error:
            complain(*explained(error, self.backend.agent))
            return None

    def close(self) -> None:
        """The chat is over."""
        try:
            self.backend.close()
        except FAILURES as error:
            note(explained(error, self.backend.agent)[0])


def send(session: Session, message: Message | None) -> None:
    """One turn of a person; None: the last one again. Its images are gone once it was answered."""
    result = session.turn(message)
    if result is not None:
        if message is not None:
            session.images = []
        say_what_is_missing(result)
        click.echo(err=True)


def explained(error: Exception, agent: str) -> tuple[str, list[str]]:
    """A failure of `FAILURES` for people: one line with the way out, and the lines below it."""
    if isinstance(error, CallError):
        return explain(agent, error, is_deployed=not agent.startswith(("http://", "https://")))
    if isinstance(error, ControlError):
        return error.message, list(error.details)
    message = error.message if isinstance(error, click.ClickException) else str(error)
    return message, list(getattr(error, "details", ()))
