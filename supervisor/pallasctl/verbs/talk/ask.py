"""The verb `ask`: one message, and the answer alone on stdout.

Knows options and documents; the turn itself is in `turn`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from pallas_common.terminal_text import terminal_json, terminal_line
from pallas_control.mcp.errors import CallError
from pallas_control.mcp.messages import Question
from pallasctl.failures import Failure
from pallasctl.options import SECONDS, agent_argument, conversation_option, output_option, supervisor_options
from pallasctl.verbs.talk.images import ImageError, read_images
from pallasctl.verbs.talk.terminal.message_text import LONGEST_TEXT, UnreadableError, decoded
from pallasctl.verbs.talk.terminal.output import note, print_answer
from pallasctl.verbs.talk.terminal.status_line import StatusLine
from pallasctl.verbs.talk.turn import explain, find, take_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_control.mcp.messages import Answer


def _images(_: click.Context, __: click.Parameter, paths: tuple[str, ...]) -> list[Any]:
    try:
        return list(read_images(paths))
    except ImageError as error:
        raise click.BadParameter(terminal_line(str(error))) from None


@click.command()
@agent_argument
@click.argument("text", nargs=-1)
@click.option(
    "-i",
    "--image",
    "images",
    multiple=True,
    metavar="PATH",
    callback=_images,
    help="An image that goes with the message: PNG, JPEG, GIF or WebP. May be repeated.",
)
@conversation_option
@click.option(
    "--timeout",
    type=SECONDS,
    metavar="SECONDS",
    help="Cancel the call after so long.  [default: no limit]",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@output_option("text", "json")
@supervisor_options
@click.pass_context
def ask(
    ctx: click.Context,
    agent: str,
    text: tuple[str, ...],
    *,
    images: list[Any],
    conversation_id: str | None,
    timeout: float | None,
    quiet: bool,
    output: str,
) -> None:
    """Send an agent a message and print its answer.

    TEXT may be several words. Without it, or where it is -, the message is read from standard input. AGENT is
    the name of an agent that runs here, or the URL of an MCP endpoint of Pallas elsewhere.

    The answer is all that goes to standard output; progress goes to standard error. Ctrl-C cancels the call.
    Agents remember nothing: for a conversation use `pallasctl chat`.

    Exit status: 0 there is an answer, 1 the agent or the call failed, 2 wrong usage, 130 interrupted.
    """
    question = Question(_message(text, has_images=bool(images)), images, conversation_id=conversation_id)
    began = time.monotonic()
    answer, failure, is_deployed = None, None, False
    try:
        target = find(agent)
        is_deployed = target.is_deployed
        if target.note and not quiet and not sys.stderr.isatty():
            note(target.note)
        answer = take_turn(target, question, timeout, StatusLine(quiet=quiet))
    except CallError as error:
        failure = error
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param_hint="AGENT") from None
    if output == "json":
        duration = round(time.monotonic() - began, 3)
        click.echo(terminal_json(_document(agent, question, answer, failure, duration)))
    elif answer is not None:
        print_answer(answer)
    if failure is not None:
        message, details = explain(agent, failure, is_deployed=is_deployed)
        raise Failure(message, details=details)


def _document(
    agent: str, question: Question, answer: Answer | None, failure: CallError | None, duration: float
) -> dict[str, Any]:
    """What `-o json` prints; all keys are always there."""
    error = None
    if failure is not None:
        error = {"kind": failure.kind, "message": failure.message, "retry_after": failure.retry_after}
    return {
        "agent": agent,
        "answer": None if answer is None else answer.text,
        "texts": [] if answer is None else list(answer.texts),
        "images": [] if answer is None else list(answer.images),
        "is_error": failure is not None,
        "error": error,
        "duration": duration,
        "conversation_id": question.conversation_id,
    }


def _message(words: Sequence[str], *, has_images: bool) -> str:
    """The message: the words, or what is on stdin."""
    from_stdin = list(words) == ["-"] or (not words and not sys.stdin.isatty())
    try:
        text = _stdin() if from_stdin else decoded(os.fsencode(" ".join(words)), "TEXT")
    except UnreadableError as error:
        raise click.UsageError(str(error)) from None
    if not text.strip() and not has_images:
        where = "standard input is empty" if from_stdin else "no TEXT"
        raise click.UsageError(f"{where}; say what to ask, such as: pallasctl ask AGENT 'Who are you?'")
    return text


def _stdin() -> str:
    return decoded(sys.stdin.buffer.read(LONGEST_TEXT + 1), "standard input").removesuffix("\n")
