"""The verb `init`: an agents.yaml for the fast-agent project in a folder, or a first project where there is none.

Reads sources and runs none of them. Writes new files only, and asks nothing.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pallas_common.problems import quoted
from pallas_common.terminal_text import terminal_line
from pallasctl.failures import Failure, InvalidConfiguration
from pallasctl.text import Cell, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pallas_registry.projects.code.files import Tree
    from pallas_registry.projects.model import Entry, Proposal

FILE = "agents.yaml"
_MODEL_VARIABLE = "FAST_AGENT_MODEL"
MOST_LINES = 20
"""Of each list that is shown."""


@click.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="What the deployment is called [default: after the project].")
@click.option("--dry-run", is_flag=True, help="Print agents.yaml, and write nothing.")
def init(directory: Path | None, name: str | None, dry_run: bool) -> None:
    """Write an agents.yaml for a fast-agent project.

    DIRECTORY is the working directory, unless given. Finds the FastAgents in the Python files, the functions
    that return one, and agent cards, by reading them: nothing of the project is run, and no file of it is
    changed. Where there is no agent, a first project with two small ones is written, which runs without a
    model or a key.

    Exit status: 0 it is written, 1 it could not be, 2 there is an agents.yaml already, or no agent can be served.
    """
    from pallas_registry.projects.agents_text import agents_text
    from pallas_registry.projects.code.files import read_tree
    from pallas_registry.projects.proposal import propose

    _check_name(name)
    place = _place(directory)
    try:
        tree = read_tree(place)
    except FileNotFoundError:
        tree = None
    except OSError as error:
        raise Failure(f"{place}: cannot be read: {error.strerror or error}") from None
    proposal = propose(
        tree or _nothing(),
        place.name,
        name,
        is_free=is_free,
        is_installed=_is_installed,
        has_model=_names_model(place),
    )
    files: dict[str, str] = {}
    adopted = bool(proposal.entries)
    if not adopted:
        files = _first_project(place, proposal, tree)
    text = agents_text(proposal)
    if dry_run:
        click.echo(text, nl=False)
    else:
        _write(place, {**files, FILE: text})
    _report(proposal, directory, [*files, FILE], adopted=adopted, dry_run=dry_run)


def is_free(port: int) -> bool:
    """Whether this machine's loopback address can be listened on at this port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except (OSError, OverflowError):
            return False
    return True


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _names_model(place: Path) -> bool:
    """Whether the environment or `.env` names a model for agents that name none."""
    from pallas_common.problems import collect
    from pallas_registry.environment.dotenv import load_dotenv

    variables = {**os.environ, **(collect(lambda: load_dotenv(place, os.environ), []) or {})}
    return bool(variables.get(_MODEL_VARIABLE))


def _nothing() -> Tree:
    from pallas_registry.projects.code.files import Tree

    return Tree({}, (), frozenset(), None)


def _check_name(name: str | None) -> None:
    from pallas_registry.reading import rules

    if name is None:
        return
    if rules.deployment_name(name) or rules.namespace(f"local.{name}"):
        raise click.BadParameter(
            f"{quoted(name)} cannot name a deployment; use letters, digits, `.` and `-`, as in `my-project`",
            param_hint="--name",
        )


def _place(directory: Path | None) -> Path:
    """The folder, absolute.

    Raises:
        Failure: it is no folder, or it has an agents.yaml.
    """
    from pallas_common.problems import ConfigurationError
    from pallas_registry.deployment.location import working_directory

    try:
        place = working_directory() / directory if directory is not None else working_directory()
    except ConfigurationError as error:
        raise InvalidConfiguration(str(error)) from None
    place = Path(os.path.abspath(place))  # noqa: PTH100 - links are kept
    try:
        if os.path.lexists(place / FILE):
            shown = FILE if directory is None else str(directory / FILE)
            raise InvalidConfiguration(
                f"{shown} is there already, and stays as it is; `pallas check` says whether it is good"
            )
        if place.exists() and not place.is_dir():
            raise InvalidConfiguration(
                f"{directory} is not a folder; name one, or run it in the project's own"
            )
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise Failure(f"{directory or place}: cannot be read: {reason}") from None
    return place


def _first_project(place: Path, proposal: Proposal, tree: Tree | None) -> dict[str, str]:
    """The files of a first project; agents that cannot be served, or are somewhere else, are told instead."""
    from pallas_registry.projects.code.files import SETTINGS
    from pallas_registry.projects.proposal import free_ports
    from pallas_registry.projects.scaffold import OPTIONAL, scaffold

    if proposal.notes.mend or proposal.left_out:
        details = [*map(str, proposal.notes.mend), *proposal.left_out]
        details += [
            f"{each}/ has settings of its own: pallas init {shlex.quote(each)}" for each in proposal.projects
        ]
        message = "found no agent that can be served; nothing is written"
        raise InvalidConfiguration(message, details=details[:MOST_LINES])
    if proposal.projects:
        details = [f"pallas init {shlex.quote(project)}" for project in proposal.projects[:MOST_LINES]]
        message = "found no agent here; folders below have settings of their own, and each is a project:"
        raise InvalidConfiguration(message, details=details)
    files = tree.files if tree is not None else {}
    ports = free_ports(is_free)
    new = scaffold(proposal, (next(ports), next(ports)), has_settings=any(name in files for name in SETTINGS))
    for path in list(new):
        if os.path.lexists(place / path):
            if path not in OPTIONAL:
                message = f"found no agent, and cannot write a first one: {path} is there already"
                raise InvalidConfiguration(f"{message}; run it in an empty folder")
            del new[path]
    return new


def _write(place: Path, files: Mapping[str, str]) -> None:
    from pallas.new_files import write_new

    try:
        write_new(place, files)
    except FileExistsError as error:
        taken = error.filename2 or error.filename
        raise InvalidConfiguration(f"{taken} is there already; nothing is written") from None
    except OSError as error:
        where = error.filename2 or error.filename or place
        reason = error.strerror or str(error)
        raise Failure(f"{where}: cannot be written: {reason}; nothing is written") from None


def _report(
    proposal: Proposal, directory: Path | None, files: Sequence[str], *, adopted: bool, dry_run: bool
) -> None:
    """What was written, what has to be mended, what could not be known, and how to go on: on stderr in a dry run."""

    def say(text: str) -> None:
        click.echo(text, err=dry_run)

    shown = [str(directory / file) if directory is not None else file for file in files]
    verb = "would write" if dry_run else "wrote"
    if not adopted:
        say("found no agent: a first project, to be changed as you like")
    say(f"{verb} {', '.join(map(terminal_line, shown))}")
    rows = [
        [
            Cell(entry.name),
            Cell(str(entry.port)),
            Cell(_served(entry)),
            Cell(", ".join(entry.depends_on) or "-"),
        ]
        for entry in proposal.entries
    ]
    say("")
    say(table(["AGENT", "PORT", "FROM", "DEPENDS ON"], rows))
    if proposal.left_out:
        say("")
        _list(say, "not served:", proposal.left_out)
    if proposal.notes.mend:
        say("")
        _list(say, "to mend before the start:", list(map(str, proposal.notes.mend)))
    say("")
    unknown = list(proposal.notes.unknown)
    if proposal.projects:
        unknown.append(
            f"whether these belong to it, which have settings of their own: {', '.join(proposal.projects)}"
        )
    if unknown:
        more = f" (and {len(unknown) - 2} more)" if len(unknown) > 2 else ""
        say(f"could not tell: {terminal_line('; '.join(unknown[:2]))}{more}")
    change = (
        f"cd {shlex.quote(str(directory))} && " if directory is not None and str(directory) != "." else ""
    )
    say(f"next: {terminal_line(change)}pallas check")


def _served(entry: Entry) -> str:
    source = entry.source
    served = source.served.name if source.served is not None else None
    several = (
        f" (agent {served} of {len(source.definitions)})" if len(source.definitions) > 1 and served else ""
    )
    return terminal_line(f"{source.key}: {source.value}{several}")


def _list(say: Callable[[str], None], title: str, lines: Sequence[str]) -> None:
    say(title)
    for line in lines[:MOST_LINES]:
        say(f"  {terminal_line(line)}")
    if len(lines) > MOST_LINES:
        say(f"  … and {len(lines) - MOST_LINES} more")
