"""A chat with a person at a terminal: prompts, messages and commands, until the end of the input."""

from __future__ import annotations

import os
import shlex
from functools import partial
from typing import TYPE_CHECKING

import click

from pallasctl.verbs.talk.backends.backend import Message
from pallasctl.verbs.talk.chat.commands import ChatCommands, is_command
from pallasctl.verbs.talk.chat.session import send
from pallasctl.verbs.talk.terminal.input_history import InputHistory, history_file
from pallasctl.verbs.talk.terminal.line_input import no_echo, typed_messages
from pallasctl.verbs.talk.terminal.message_text import UnreadableError
from pallasctl.verbs.talk.terminal.output import complain, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallasctl.verbs.talk.chat.session import Session


def converse(session: Session, *, resumed: bool) -> None:
    """Turns with a person.

    Args:
        resumed: whether a thread is gone on with, whose end is to be shown.
    """
    commands = ChatCommands(session)
    history = InputHistory(history_file(os.environ))
    ask = typed_messages(commands.complete, history)
    backend = session.backend
    note(f"Chat with {backend.agent}. Ctrl-C cancels an answer, Ctrl-D ends it, /help lists more.")
    for line in (backend.note, history.problem):
        if line:
            note(line)
    if resumed:
        _run(commands.threads.show_end)
    goes_on = True
    while goes_on:
        try:
            goes_on = _step(session, commands, ask)
        except KeyboardInterrupt:
            click.echo(err=True)  # what was begun on the line is given up
        except UnreadableError as error:
            complain(str(error))
    session.close()
    if backend.threads is not None and (thread := backend.threads.current) is not None:
        note(f"go on with `pallasctl chat {shlex.quote(backend.agent)} --thread {thread}`")


def _step(session: Session, commands: ChatCommands, ask: Callable[[], str | None]) -> bool:
    """One message of a person; whether the chat goes on."""
    message = ask()
    if message is None:
        click.echo(err=True)
        return False
    if is_command(message):
        return _run(partial(commands.run, message)) is not False
    if message.strip() or session.images:
        _run(partial(send, session, Message(message, tuple(session.images))))
    return True


def _run[T](what: Callable[[], T]) -> T | None:
    """Do that; None where Ctrl-C has ended it."""
    try:
        with no_echo():
            return what()
    except KeyboardInterrupt:
        note("cancelled")
        return None
