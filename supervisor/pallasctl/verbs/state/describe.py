"""The verb `describe`: all that is known of one agent, or of another resource.

Knows the kinds of things that can be described and their documents; the text is made in `description`, and that of
resources in `resources.description`.
"""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import click

from pallas_common.terminal_text import terminal_json
from pallas_control.errors import UnknownAgentError
from pallas_registry.resources.model import ResourceId
from pallasctl.options import GATEWAY, complete_agent_or_gateway, control, output_option, supervisor_options
from pallasctl.verbs.resources.changes import NoSuchResource, resource_of
from pallasctl.verbs.resources.words import complete_resource, one_resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pallas_control.documents import GatewayStatus


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    given: Sequence[str] = ctx.params.get("what") or ()
    agents = [] if given else complete_agent_or_gateway(ctx, parameter, incomplete)
    return [*complete_resource(ctx, parameter, incomplete), *agents]


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="[KIND] NAME", shell_complete=_complete)
@output_option("text", "json", "yaml")
@supervisor_options
def describe(what: tuple[str, ...], output: str) -> None:
    """Show all that is known of an agent, or of another resource.

    Of an agent: its state and health with what to do, what it serves and uses, every setting with the line that
    it comes from, and how its workers ended the last times, with what they wrote before. `describe jarvis` and
    `describe agent jarvis` are the same.

    `describe gateway` is what `gateway status` shows.

    Of an llm, a secret, a server or a project: what it says, what is wrong with it, and what uses it.
    """
    resource = ResourceId("agent", what[0]) if len(what) == 1 and "/" not in what[0] else one_resource(what)
    document = _document(resource)
    if output == "json":
        click.echo(terminal_json(document))
    elif output == "yaml":
        from pallasctl.yaml_text import yaml_document

        click.echo(yaml_document(document))
    else:
        for line in _lines(document):
            click.echo(line)


def _document(resource: ResourceId) -> dict[str, Any]:
    if resource.kind != "agent":
        return resource_of(resource)
    try:
        found: dict[str, Any] = control().get(f"/v1/agents/{quote(resource.name, safe='')}")
    except UnknownAgentError:
        try:  # one that cannot be deployed is a resource all the same, with what is wrong with it
            return resource_of(resource)
        except NoSuchResource:
            pass
        if resource.name == GATEWAY and (gateway := control().get("/v1/status").get("gateway")) is not None:
            return dict(gateway)
        raise
    return found


def _lines(document: dict[str, Any]) -> Iterator[str]:
    now = datetime.now(UTC)
    if "spec" in document:
        from pallasctl.verbs.resources.description import resource_lines

        yield from resource_lines(document, now)
        return
    if "public_url" in document:
        from pallasctl.verbs.gateway.status import lines_of

        yield from lines_of(cast("GatewayStatus", document), now)
        return
    from pallasctl.verbs.state.description import agent_lines

    yield from agent_lines(document, now, shutil.get_terminal_size().columns if sys.stdout.isatty() else None)
