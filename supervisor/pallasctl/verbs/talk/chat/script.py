"""A chat with a script: one message, or one a line of standard input; answers alone on stdout."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from pallas_common.terminal_text import terminal_json
from pallas_control.errors import GatewayRefusedError
from pallas_control.mcp.errors import CallError
from pallasctl.failures import Failure
from pallasctl.verbs.talk.backends.backend import Asked, Message, Result
from pallasctl.verbs.talk.chat.display import say_what_is_missing
from pallasctl.verbs.talk.chat.session import explained
from pallasctl.verbs.talk.terminal.line_input import piped_messages
from pallasctl.verbs.talk.terminal.message_text import LONGEST_TEXT, UnreadableError, decoded

if TYPE_CHECKING:
    from pallasctl.verbs.talk.backends.backend import Backend
    from pallasctl.verbs.talk.chat.session import Session


def read_message(said: str) -> str:
    """The message of `-m`; `-` stands for standard input.

    Raises:
        click.UsageError: it is empty, too long, or no UTF-8.
    """
    try:
        text = said
        if said == "-":
            text = decoded(sys.stdin.buffer.read(LONGEST_TEXT + 1), "standard input").removesuffix("\n")
        else:
            text = decoded(said.encode("utf-8", "surrogateescape"), "the message")
    except UnreadableError as error:
        raise click.UsageError(str(error)) from None
    if not text.strip():
        where = "standard input is empty" if said == "-" else "the message of -m is empty"
        raise click.UsageError(f"{where}; say what to ask, such as: pallasctl chat AGENT -m 'Who are you?'")
    return text


def say_once(session: Session, text: str) -> bool:
    """One turn; whether it was answered."""
    result = session.turn(Message(text))
    if result is not None:
        say_what_is_missing(result)
    return result is not None


def follow_script(session: Session) -> bool:
    """The messages on stdin; whether all were answered."""
    done = True
    try:
        for message in piped_messages():
            done = say_once(session, message) and done
    except UnreadableError as error:
        raise Failure(str(error)) from None
    return done


def result_of(backend: Backend, text: str) -> Result:
    """One turn; raises what the backend does."""
    result = None
    with closing(backend.whole(Asked(Message(text), {}))) as happening:
        for item in happening:
            if isinstance(item, Result):
                result = item
    assert result is not None, "a turn ends with a result or raises"
    return result


def answer_document(agent: str, result: Result) -> str:
    """What `--json` prints of an answer."""
    return _document(
        agent,
        threadId=result.thread,
        turnIndex=result.turn_index,
        content=result.content,
        toolCalls=list(result.tool_calls),
        usage=result.usage,
    )


def failure_document(agent: str, error: Exception, thread: str | None) -> str:
    """What `--json` prints where there is no answer; all keys are always there."""
    kind = "failed"
    if isinstance(error, CallError):
        kind = error.kind
    elif isinstance(error, GatewayRefusedError):
        kind = "refused"
    elif isinstance(error, click.UsageError) or getattr(error, "exit_code", 1) == click.UsageError.exit_code:
        kind = "usage"
    said: dict[str, Any] = {"kind": kind, "message": explained(error, agent)[0]}
    if isinstance(error, GatewayRefusedError):
        said |= {"status": error.status, "field": error.field}
    if (retry_after := getattr(error, "retry_after", None)) is not None:
        said["retryAfter"] = retry_after
    return _document(agent, threadId=thread, error=said)


def _document(agent: str, **fields: Any) -> str:
    empty = dict.fromkeys(("threadId", "turnIndex", "content", "toolCalls", "usage", "error"))
    return terminal_json({"agent": agent, **empty, **fields})
