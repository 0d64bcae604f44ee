"""The verb `describe`: all that is known of one agent.

Knows the kinds of things that can be described and their documents; the text is made in `description`.
"""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from pallas_common.problems import did_you_mean, quoted
from pallas_common.terminal_text import terminal_json
from pallasctl.options import complete_agent, control, output_option, socket_option
from pallasctl.verbs.state.description import agent_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS = ("agent",)
"""What can be described; without a kind, an agent is meant."""


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    given: Sequence[str] = ctx.params.get("what") or ()
    kinds = [] if given else [kind for kind in KINDS if kind.startswith(incomplete)]
    return [*kinds, *complete_agent(ctx, parameter, incomplete)]


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="[KIND] NAME", shell_complete=_complete)
@output_option("text", "json", "yaml")
@socket_option
def describe(what: tuple[str, ...], output: str) -> None:
    """Show all that is known of an agent.

    Its state and health with what to do, what it serves and uses, every setting with the line that it comes
    from, and how its workers ended the last times, with what they wrote before. `describe jarvis` and
    `describe agent jarvis` are the same.
    """
    name = _name(what)
    document: dict[str, Any] = control().get(f"/v1/agents/{quote(name, safe='')}")
    if output == "json":
        click.echo(terminal_json(document))
    elif output == "yaml":
        from pallasctl.yaml_text import yaml_document

        click.echo(yaml_document(document))
    else:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in agent_lines(document, datetime.now(UTC), columns):
            click.echo(line)


def _name(what: tuple[str, ...]) -> str:
    if len(what) == 1:
        return what[0]
    kind, *names = what
    if kind not in KINDS:
        near = did_you_mean(kind, KINDS)
        kinds = f"did you mean {near!r}?" if near else f"the kinds are: {', '.join(KINDS)}"
        raise click.UsageError(f"there is no kind {quoted(kind)}; {kinds}")
    if len(names) > 1:
        raise click.UsageError("one at a time: name one agent")
    return names[0]
