"""The verb `create`, with a verb of its own for each kind.

Knows which option says which field; what a field may be is for the supervisor to say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, override

import click

from pallas_registry.resources.model import API_VERSION, KINDS, Kind
from pallasctl.failures import Failure
from pallasctl.options import supervisor_options
from pallasctl.verbs.resources import changes
from pallasctl.verbs.resources.create import values
from pallasctl.verbs.resources.create.parameters import parameter_options, parameters_of
from pallasctl.verbs.resources.files import File
from pallasctl.verbs.resources.words import completed_by, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pallas_control.documents import AppliedDocument, AppliedResource

_PAIR = values.Pair()
_FROM_COMMAND_LINE = "command line"
_PLACE = re.compile(rf"^{_FROM_COMMAND_LINE}(:\d+)?: ")
_OF_NOTHING = ""
"""The `resourceVersion` of what is only to be created."""


class _ByKind(click.Group):
    """A verb for each kind, singular or plural."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(KINDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if ctx.resilient_parsing and cmd_name not in KINDS:
            return None
        return self.commands[kind_of(cmd_name)]


@click.group(cls=_ByKind)
def create() -> None:
    """Create one resource from what the command line says.

    What is there already is refused: `edit` and `apply` change it. `pallasctl get KIND NAME -o yaml` shows what
    was made, to go on with in a file.
    """


name_argument = click.argument("name")
description_option = click.option("--description", metavar="TEXT", help="What it is, for people and models.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what it would do.")


@create.command()
@name_argument
@click.option(
    "--data",
    type=_PAIR,
    multiple=True,
    metavar="KEY=VALUE",
    help="A value, which others on this machine can see in `ps` meanwhile; KEY=- reads it from stdin.",
)
@click.option("--from-file", type=_PAIR, multiple=True, metavar="KEY=PATH", help="What is in a file.")
@click.option(
    "--from-env", multiple=True, metavar="KEY", help="What the variable KEY has; KEY=VARIABLE another one."
)
@dry_run_option
@supervisor_options
def secret(
    name: str,
    *,
    data: tuple[tuple[str, str], ...],
    from_file: tuple[tuple[str, str], ...],
    from_env: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Create a secret: values that other resources name, and that nothing shows again.

    A line feed at the end of a file or of stdin is left out.
    """
    if sum(value == values.STDIN for _, value in data) > 1:
        raise click.UsageError("stdin has one value: give --data KEY=- once")
    variables = [(key, variable or key) for key, _, variable in (each.partition("=") for each in from_env)]
    found = [
        *((key, values.secret_value(value)) for key, value in data),
        *((key, values.secret_file(path)) for key, path in from_file),
        *((key, values.variable(variable)) for key, variable in variables),
    ]
    if not found:
        raise click.UsageError("give a value with --data, --from-file or --from-env")
    _create("secret", name, {"data": values.pairs_of(found, "the command line")}, dry_run=dry_run)


@create.command()
@name_argument
@click.option(
    "--type", "type_", required=True, metavar="TYPE", help="The provider, as fast-agent calls it: openai, …"
)
@click.option("--model", required=True, metavar="MODEL", help="The model, as the provider calls it.")
@click.option("--url", metavar="URL", help="Where it is asked, if not where the provider is.")
@click.option("--api-key-ref", metavar="SECRET/KEY", help="The key: a secret, and which of its values.")
@description_option
@dry_run_option
@supervisor_options
def llm(
    name: str,
    *,
    type_: str,
    model: str,
    url: str | None,
    api_key_ref: str | None,
    description: str | None,
    dry_run: bool,
) -> None:
    """Create an llm: a model, and where it is asked."""
    spec = {
        "type": type_,
        "model": model,
        "url": url,
        "apiKeyRef": api_key_ref,
        "description": description,
    }
    _create("llm", name, spec, dry_run=dry_run)


@create.command()
@name_argument
@click.option(
    "--llm", metavar="NAME", shell_complete=completed_by("llm"), help="The llm resource that it asks."
)
@click.option("--model", metavar="MODEL", help="Instead of an llm: provider.model, as fast-agent writes it.")
@description_option
@click.option("--system-prompt", metavar="TEXT|@FILE", help="What it is told first; @- is stdin.")
@click.option(
    "--project",
    metavar="NAME",
    shell_complete=completed_by("project"),
    help="Whose servers and prompts it has.",
)
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="NAME",
    shell_complete=completed_by("server"),
    help="An MCP server beside the project's; as often as wanted.",
)
@click.option(
    "--tool",
    "tools",
    multiple=True,
    metavar="GLOB",
    help="Tools that it may call, as `search__*`; as often as wanted.",
)
@click.option("--output-schema", metavar="JSON|@FILE", help="Its answers are JSON of this schema.")
@click.option("--port", type=click.INT, metavar="N", help="A TCP port; without it, a unix socket.")
@parameter_options
@dry_run_option
@supervisor_options
def agent(
    name: str,
    *,
    llm: str | None,
    model: str | None,
    description: str | None,
    system_prompt: str | None,
    project: str | None,
    servers: tuple[str, ...],
    tools: tuple[str, ...],
    output_schema: str | None,
    port: int | None,
    dry_run: bool,
    **defaults: Any,
) -> None:
    """Create an agent. It starts when somebody talks to it.

    `--default-…` are what its turns have unless a request says otherwise.
    """
    if llm and model:
        raise click.UsageError("give --llm or --model, not both")
    spec = {
        "description": description,
        "llm": llm,
        "model": model,
        "project": project,
        "systemPrompt": None if system_prompt is None else values.text_or_file(system_prompt),
        "defaultParams": parameters_of(defaults),
        "servers": list(servers),
        "tools": list(tools),
        "outputSchema": None if output_schema is None else values.json_or_file(output_schema),
        "run": {} if port is None else {"port": port},
    }
    _create("agent", name, spec, dry_run=dry_run)


@create.command()
@name_argument
@click.option("--url", metavar="URL", help="Where it is.")
@click.option(
    "--header",
    "headers",
    type=_PAIR,
    multiple=True,
    metavar="NAME=VALUE",
    help="Of each request; as often as wanted.",
)
@click.option(
    "--command", metavar="PROGRAM", help="Instead of a URL: what starts it; its arguments come behind `--`."
)
@click.argument("arguments", nargs=-1, metavar="[-- ARG...]")
@click.option(
    "--env",
    type=_PAIR,
    multiple=True,
    metavar="NAME=VALUE",
    help="A variable of the program; as often as wanted.",
)
@description_option
@dry_run_option
@supervisor_options
def server(
    name: str,
    *,
    url: str | None,
    headers: tuple[tuple[str, str], ...],
    command: str | None,
    arguments: tuple[str, ...],
    env: tuple[tuple[str, str], ...],
    description: str | None,
    dry_run: bool,
) -> None:
    """Create an MCP server that agents may use: one at a URL, or a program that Pallas starts.

    Headers and variables may refer to secrets, as '${secret:NAME/KEY}': in single quotes, for the shell.
    """
    if (url is None) == (command is None):
        raise click.UsageError("give --url or --command" + (", not both" if url else ""))
    if arguments and command is None:
        raise click.UsageError("arguments are for a program: give --command")
    spec = {
        "description": description,
        "url": url,
        "headers": values.pairs_of(headers, "--header"),
        "command": command,
        "args": list(arguments),
        "env": values.pairs_of(env, "--env"),
    }
    _create("server", name, spec, dry_run=dry_run)


@create.command()
@name_argument
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="NAME",
    shell_complete=completed_by("server"),
    help="An MCP server of all its agents; as often as wanted.",
)
@description_option
@dry_run_option
@supervisor_options
def project(name: str, *, servers: tuple[str, ...], description: str | None, dry_run: bool) -> None:
    """Create a project: servers and prompts that agents share."""
    _create("project", name, {"description": description, "servers": list(servers)}, dry_run=dry_run)


def _create(kind: Kind, name: str, spec: dict[str, Any], *, dry_run: bool) -> None:
    """Create it of what is said, None and empty lists being nothing said.

    Raises:
        Failure: it is there already, or the supervisor refuses it.
    """
    from pallasctl.yaml_text import yaml_document

    given = {key: value for key, value in spec.items() if value not in (None, [], {})}
    metadata = {"name": name, "resourceVersion": _OF_NOTHING}
    document = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": given}
    made = changes.apply_files([File(_FROM_COMMAND_LINE, f"{yaml_document(document)}\n")], dry_run=dry_run)
    said = _without_lines(made)
    if not said["results"]:
        raise Failure(f"{kind}/{name} is refused", details=changes.problems_of(said))
    changes.report(said, dry_run=dry_run)


def _without_lines(document: AppliedDocument) -> AppliedDocument:
    """The answer without lines of a file that nobody has written."""

    def shorter(problems: Iterable[str]) -> list[str]:
        return [_PLACE.sub("", problem) for problem in problems]

    results: list[AppliedResource] = [
        {
            "resource": result["resource"],
            "outcome": result["outcome"],
            "problems": shorter(result.get("problems", ())),
        }
        for result in document["results"]
    ]
    return {"results": results, "problems": shorter(document.get("problems", ()))}
