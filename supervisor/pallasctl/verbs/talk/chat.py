"""The verb `chat`: turns with one agent, whose history is kept here; for a person at a terminal, or a script.

Knows options, and what happens between two turns; commands of the chat are in `chat_commands`.
"""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING

import click

from pallas_control.errors import ControlError
from pallas_control.mcp.errors import CallError, TooLargeError
from pallas_control.mcp.messages import Question
from pallasctl.failures import EXIT_FAILED, Failure
from pallasctl.options import agent_argument, conversation_option, socket_option
from pallasctl.verbs.talk.chat_commands import COMMANDS, ChatCommands, is_command
from pallasctl.verbs.talk.conversation import Conversation
from pallasctl.verbs.talk.terminal.line_input import no_echo, piped_messages, typed_messages
from pallasctl.verbs.talk.terminal.message_text import UnreadableError
from pallasctl.verbs.talk.terminal.output import complain, note, print_answer
from pallasctl.verbs.talk.terminal.status_line import StatusLine
from pallasctl.verbs.talk.turn import Target, explain, find, take_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pallas_control.mcp.messages import Answer, ImageDocument


@click.command()
@agent_argument
@conversation_option
@socket_option
@click.pass_context
def chat(ctx: click.Context, agent: str, *, conversation_id: str | None) -> None:
    """Talk with an agent, turn by turn.

    The conversation is kept here and sent with each message, for agents remember nothing: one that is restarted
    meanwhile goes on where it was. /help lists the commands. Ctrl-C cancels an answer, Ctrl-D ends the chat.
    A message goes on in the next line where a line ends with a backslash; what is pasted is one message.

    Where standard input is no terminal each of its lines is a message, and the answers are all that goes to
    standard output. AGENT is the name of an agent that runs here, or the URL of an MCP endpoint elsewhere.

    Exit status: 0 done, 1 a turn of a script failed, 2 wrong usage, 130 interrupted.
    """
    try:
        target = find(agent)
    except CallError as error:
        message, details = explain(agent, error, is_deployed=True)
        raise Failure(message, details=details) from None
    session = _Session(agent, conversation_id or f"chat-{uuid.uuid4().hex[:12]}")
    if sys.stdin.isatty():
        _converse(session, target)
    elif not _follow_script(session):
        ctx.exit(EXIT_FAILED)


class _Session:
    """The agent and what has been said."""

    def __init__(self, agent: str, conversation_id: str) -> None:
        self.agent = agent
        self.conversation = Conversation()
        self._conversation_id = conversation_id
        self._line = StatusLine()

    def turn(self, message: str, images: Sequence[ImageDocument] = ()) -> Answer | None:
        """Ask; None where there is no answer, for a reason that has been told."""
        is_deployed = False
        try:
            target = find(self.agent)  # it may be elsewhere, or stopped, since the last turn
            is_deployed = target.is_deployed
            answer = self._ask(target, message, images)
        except CallError as error:
            complain(*explain(self.agent, error, is_deployed=is_deployed))
        except ControlError as error:
            complain(error.message, error.details)
        except click.ClickException as error:  # the agent is not deployed any more
            complain(error.message)
        else:
            self.conversation.add(message, images, answer.text)
            return answer
        return None

    def _ask(self, target: Target, message: str, images: Sequence[ImageDocument]) -> Answer:
        while True:
            question = Question(message, images, self.conversation.rows, self._conversation_id)
            try:
                return take_turn(target, question, None, self._line)
            except TooLargeError:
                if not (left_out := self.conversation.shorten()):
                    raise
                oldest = "oldest turn is" if left_out == 1 else f"{left_out} oldest turns are"
                note(
                    f"the conversation has become too long for one request: its {oldest} left out from now on"
                )


def _converse(session: _Session, target: Target) -> None:
    """Turns with a person, until the end of the input."""
    commands = ChatCommands(session.agent, session.conversation)
    ask = typed_messages(COMMANDS)
    note(f"Chat with {session.agent}. Ctrl-D ends it, Ctrl-C cancels an answer, /help lists the rest.")
    if target.note:
        note(target.note)
    goes_on = True
    while goes_on:
        try:
            goes_on = _step(session, commands, ask)
        except KeyboardInterrupt:
            click.echo(err=True)  # what was begun on the line is given up
        except UnreadableError as error:
            complain(str(error))


def _step(session: _Session, commands: ChatCommands, ask: Callable[[], str | None]) -> bool:
    """One message of a person; whether the chat goes on."""
    message = ask()
    if message is None:
        click.echo(err=True)
        return False
    if is_command(message):
        return commands.run(message)
    if message.strip():
        try:
            with no_echo():
                _show(session.turn(message, commands.images), commands)
        except KeyboardInterrupt:
            note("cancelled")
    return True


def _show(answer: Answer | None, commands: ChatCommands) -> None:
    if answer is None:
        return
    commands.images = []
    for text in answer.texts[:-1]:
        note(text)
    print_answer(answer)
    click.echo(err=True)


def _follow_script(session: _Session) -> bool:
    """The messages on stdin; whether all were answered."""
    done = True
    try:
        for message in piped_messages():
            answer = session.turn(message)
            done = done and answer is not None
            if answer is not None:
                print_answer(answer)
    except UnreadableError as error:
        raise Failure(str(error)) from None
    return done
