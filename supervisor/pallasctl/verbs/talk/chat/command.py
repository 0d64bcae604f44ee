"""The verb `chat`: its options, and whether a person or a script talks.

Knows options; what is said is in `person` and `script`.
"""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING

import click

from pallasctl.failures import EXIT_FAILED, Failure
from pallasctl.options import agent_argument, conversation_option
from pallasctl.verbs.gateway.asking import gateway_options
from pallasctl.verbs.talk.backends.choose import choose
from pallasctl.verbs.talk.chat.script import (
    answer_document,
    failure_document,
    follow_script,
    read_message,
    result_of,
    say_once,
)
from pallasctl.verbs.talk.chat.session import FAILURES, Session, explained

if TYPE_CHECKING:
    from pallasctl.verbs.talk.backends.backend import Backend


@click.command()
@agent_argument
@click.option(
    "-m", "--message", metavar="TEXT", help="Send this, print the answer and end; - reads it from stdin."
)
@click.option("--thread", metavar="ID", help="Go on with this thread, which the gateway keeps.")
@click.option("--json", "as_json", is_flag=True, help="With -m: print the answer as a JSON document.")
@conversation_option
@gateway_options
@click.pass_context
def chat(
    ctx: click.Context,
    agent: str,
    *,
    message: str | None,
    thread: str | None,
    as_json: bool,
    conversation_id: str | None,
) -> None:
    """Talk with an agent, turn by turn.

    With a gateway the conversation is a thread that it keeps: leave, and go on with --thread or /resume.
    Without one it is kept here, and ends with the chat. /help lists the commands. Ctrl-C ends an answer and
    not the chat, Ctrl-D ends the chat. A message goes on in the next line where a line ends with a backslash; what
    is pasted is one message.

    With -m there is one turn. Without it, and where standard input is no terminal, each of its lines is a message.
    The answers are all that goes to standard output. AGENT is the name of an agent that runs here, or the URL of an
    MCP endpoint of Pallas elsewhere.

    Exit status: 0 done, 1 a turn of a script failed, 2 wrong usage, 130 interrupted.
    """
    if as_json and message is None:
        raise click.UsageError("--json is for one turn: give its message by -m")
    text = None if message is None else read_message(message)
    backend: Backend | None = None
    try:
        backend = _backend(agent, conversation_id, thread)
        if as_json:
            assert text is not None
            click.echo(answer_document(agent, result_of(backend, text)))
            return
    except FAILURES as error:
        if as_json:
            kept = backend.threads.current if backend is not None and backend.threads is not None else thread
            click.echo(failure_document(agent, error, kept))
        raise _failure(error, agent) from None
    session = Session(backend)
    if text is not None:
        done = say_once(session, text)
    elif sys.stdin.isatty():
        from pallasctl.verbs.talk.chat.person import converse  # with what only a terminal needs

        converse(session, resumed=thread is not None)
        return
    else:
        done = follow_script(session)
    session.close()
    if not done:
        ctx.exit(EXIT_FAILED)


def _backend(agent: str, conversation_id: str | None, thread: str | None) -> Backend:
    try:
        backend = choose(agent, conversation_id or f"chat-{uuid.uuid4().hex[:12]}")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="AGENT") from None
    if backend.threads is None:
        if thread is not None:
            raise click.UsageError(
                "--thread goes on with a thread that a gateway keeps, and there is none here: "
                "`gateway: {}` in agents.yaml and `pallasctl reload` turn it on"
            )
    elif conversation_id is not None:
        raise click.UsageError(
            "--conversation-id is for agents without a gateway: with one, the thread's id is what logs and traces have"
        )
    if thread is not None and backend.threads is not None:
        backend.threads.resume(thread)
    return backend


def _failure(error: Exception, agent: str) -> click.ClickException:
    if isinstance(error, click.ClickException):
        return error
    message, details = explained(error, agent)
    return Failure(message, details=details)
