"""The verb `cat`: the configuration in effect as an agents.yaml, each value with the place that it comes from.

Knows the document of `GET /v1/configuration` and what `agents.yaml` looks like. What is printed can be read as one.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pallas_common.problems import counted, no_such_agent
from pallas_common.terminal_text import terminal_json
from pallasctl.failures import NoSuchAgent
from pallasctl.options import agents_argument, control, output_option, supervisor_options
from pallasctl.text import one_line, paint
from pallasctl.yaml_text import yaml_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

COMMENTS = 56
"""The column from which on comments stand below each other, at most."""


class _Line(NamedTuple):
    """A line of the file, and what its comment says."""

    text: str
    comment: str = ""


@click.command()
@agents_argument
@output_option("yaml", "json")
@supervisor_options
def cat(agents: tuple[str, ...], output: str) -> None:
    """Print the configuration in effect.

    It is what the supervisor last took over.

    All settings of all agents, or of those that are named, with the line of agents.yaml that each comes from.
    It is a valid agents.yaml again, with one exception: variables in `env` that may be secrets are left out,
    each with a comment in its place.
    """
    document: dict[str, Any] = control().get("/v1/configuration")
    if agents:
        document["agents"] = _chosen(document["agents"], agents)
    if output == "json":
        click.echo(terminal_json(document))
        return
    for line in configuration_lines(document, whole=not agents):
        click.echo(line)


def _chosen(known: Sequence[Mapping[str, Any]], names: Iterable[str]) -> list[Mapping[str, Any]]:
    by_name = {agent["name"]: agent for agent in known}
    wanted = list(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in by_name]:
        raise NoSuchAgent(no_such_agent(unknown, by_name))
    return [by_name[name] for name in wanted]


def configuration_lines(document: Mapping[str, Any], *, whole: bool) -> Iterator[str]:
    """The file's lines; unless it is the `whole` deployment, the agents alone."""
    for note in _notes(document):
        yield paint(f"# {one_line(note)}", "dim")
    file = PurePath(document["file"]).name
    lines = [*(_deployment(document, file) if whole else ()), *_agents(document, file)]
    longest = max((len(line.text) for line in lines if line.comment), default=0)
    column = min(longest, COMMENTS)
    for line in lines:
        comment = paint(f"# {line.comment}", "dim") if line.comment else ""
        yield f"{line.text:<{column}}  {comment}" if comment else line.text


def _notes(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"In effect since the last start or reload, from {document['file']}."
    if only := document["only"]:
        yield f"{only} runs alone: without registry, and without what it depends on."
    files = document["files"]
    changed = ", ".join(files["changed"])
    if files["problems"]:
        problems = counted(files["problems"], "problem")
        yield f"Not in use: {changed}, changed since, with {problems}; `pallasctl check` names them."
    elif changed:
        yield f"Not in use: what has changed since in {changed}; `pallasctl reload` takes it over."
    hidden = sum(variable["hidden"] for agent in document["agents"] for variable in agent["env"])
    if hidden:
        yield f"Left out: {counted(hidden, 'variable')} that may be secret."


def _deployment(document: Mapping[str, Any], file: str) -> Iterator[_Line]:
    nested = [setting for setting in document["deployment"] if setting["name"].startswith(_GATEWAY)]
    for setting in document["deployment"]:
        if setting not in nested:
            yield _Line(f"{setting['name']}: {_value(setting['value'])}", _origin(setting, file))
    if nested:
        yield _Line("gateway:")
    for setting in nested:
        if setting["value"] is not None:
            name = setting["name"].removeprefix(_GATEWAY)
            yield _Line(f"  {name}: {_value(setting['value'])}", _origin(setting, file))
    yield _Line("")


_GATEWAY = "gateway."
"""What the settings of the gateway are called by."""


def _agents(document: Mapping[str, Any], file: str) -> Iterator[_Line]:
    yield _Line("agents:")
    for number, agent in enumerate(document["agents"]):
        if number:
            yield _Line("")
        place = "" if agent["line"] is None else one_line(f"{file}:{agent['line']}")
        yield _Line(f"  {yaml_value(agent['name'])}:", place)
        for setting in agent["settings"]:
            yield _Line(f"    {setting['name']}: {_value(setting['value'])}", _origin(setting, file))
        yield from _variables(agent["env"], file)


def _variables(variables: Sequence[Mapping[str, Any]], file: str) -> Iterator[_Line]:
    if not variables:
        return
    # Nothing but comments below a key would be no mapping.
    yield _Line("    env:" if not all(variable["hidden"] for variable in variables) else "    env: {}")
    for variable in variables:
        name = yaml_value(variable["name"])
        if variable["hidden"]:
            yield _Line(f"      # {name}: (hidden)", _origin(variable, file))
        else:
            yield _Line(f"      {name}: {yaml_value(variable['value'])}", _origin(variable, file))


def _origin(row: Mapping[str, Any], file: str) -> str:
    if row["line"] is None:
        return "default" if row["from"] == "built in" else one_line(row["from"])
    place = one_line(f"{file}:{row['line']}")
    return f"{place} (defaults)" if row["from"] == "defaults" else place


def _value(value: object) -> str:
    """A value as `agents.yaml` has it."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return yaml_value(value)
