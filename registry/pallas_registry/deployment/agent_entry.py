"""One agent's mapping in `agents.yaml`, read as an `Agent`.

Knows the keys of an agent and their defaults; of the other agents only their names.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_common.problems import quoted
from pallas_common.protocol.agent.settings import (
    RULES,
    AgentSettings,
    Choice,
    Rule,
    Seconds,
    Size,
    Truth,
    WholeNumber,
    effects,
)
from pallas_common.protocol.agent.source import AgentSource
from pallas_common.sizes import parse_size
from pallas_registry.deployment.location import absolute
from pallas_registry.deployment.model import Agent, Place
from pallas_registry.deployment.output_schema import output_schema
from pallas_registry.reading import rules
from pallas_registry.reading.files import read_file
from pallas_registry.reading.rules import Complaint
from pallas_registry.reading.sources import card_source, module_source

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from pallas_registry.reading.fields import Fields

UNREAD_PORT = 0
"""Stands for a port that is missing or was refused."""

BUILT_IN = AgentSettings()


class Look(NamedTuple):
    """How files are looked at that an entry names."""

    is_executable: Callable[[Path], bool]
    at_source: Callable[[AgentSource], Complaint | None]
    """What is wrong with the file of a source."""
    read: Callable[[Path], bytes | None] = read_file
    """The content of a file that is part of the entry; None without any."""


SHARED_KEYS = tuple(RULES)
NONE = "none"
"""The word for a size that is not limited."""
LONGEST_PATH = 4096
_UNITS = (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))
KEYS = tuple(key for key in effects(dataclasses.fields(Agent)) if key != "definition")
"""Of an entry."""
NOT_OF_A_RUN = ("module", "card", "description", "output_schema", "models")
"""What a declared agent says elsewhere."""
RUN_KEYS = tuple(key for key in KEYS if key not in NOT_OF_A_RUN)


def read_defaults(fields: Fields) -> AgentSettings:
    """What `defaults:` says for all agents, over what is built in."""
    fields.only(SHARED_KEYS)
    return AgentSettings(**_settings(fields, BUILT_IN))


def read_agent(
    name: str,
    fields: Fields,
    agents: Collection[str],
    folder: Path,
    look: Look,
    defaults: AgentSettings = BUILT_IN,
    shared: Mapping[str, Place] | None = None,
) -> Agent:
    """The agent as far as it could be read; worth something only if no problem was noted.

    `agents` are the names of all agents of the file and `folder` is where the file lies. `title` becomes
    `name.title()`, `description` the title. `python` becomes an absolute path, with symbolic links kept: a
    virtual environment is found by the link's own place. Files that the entry names are looked at with
    `look`. `env` values are taken as they are written. `defaults` are the settings of those agents that
    do not say them, `shared` where they stand.
    """
    fields.only(KEYS)
    if complaint := rules.agent_name(name):
        fields.refuse("", *complaint)
    _require_source(fields)
    fields.require("port", "give the agent a port of its own, as in `port: 8201`")
    title = fields.line_of_text("title", rules.published_text) or name.title()
    return Agent(
        **_settings(fields, defaults),
        name=name,
        module=_source(fields, "module", module_source, look.at_source),
        card=_source(fields, "card", card_source, look.at_source),
        port=fields.whole_number("port", 1, 65535) or UNREAD_PORT,
        title=title,
        description=fields.line_of_text("description", rules.published_text) or title,
        depends_on=_dependencies(name, fields, agents),
        icon=fields.text("icon", rules.icon),
        output_schema=output_schema(fields, folder, look.read),
        models=_models(fields),
        python=_python(fields, folder, look.is_executable),
        env=_environment(fields),
        line=fields.own_line,
        places={**(shared or {}), **_places(fields)},
    )


def read_run(name: str, fields: Fields) -> dict[str, Any]:
    """What `run:` of a declared agent says, as JSON and in the words of an entry; what it does not say is not in it.

    Whether there are such agents as `depends_on` names, and such a `python`, is for others to look.
    """
    fields.only(RUN_KEYS)
    found: dict[str, Any] = {
        "port": fields.whole_number("port", 1, 65535),
        "title": fields.line_of_text("title", rules.published_text),
        "depends_on": list(_dependencies(name, fields, None)),
        "icon": fields.text("icon", rules.icon),
        "python": fields.text("python", lambda text: rules.one_line(text, LONGEST_PATH)),
        "env": _environment(fields),
    }
    for key, rule in RULES.items():
        if key in fields:
            said = _setting(fields, key, rule, None)
            none = isinstance(rule, Size) and fields.says_none(key)
            found[key] = NONE if none else _as_json(rule, said)
    return {key: value for key, value in found.items() if value not in (None, [], {})}


def run_settings(run: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in what `read_run` gave, as an `Agent` has them."""
    return {key: _of_json(rule, run[key]) for key, rule in RULES.items() if key in run}


def _as_json(rule: Rule, value: object) -> object:
    if isinstance(rule, Size) and isinstance(value, int):
        return next((f"{value // step}{unit}" for unit, step in _UNITS if value % step == 0), value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _of_json(rule: Rule, value: Any) -> object:
    match rule:
        case Size():
            return None if value == NONE else parse_size(str(value))
        case Seconds():
            return float(value)
        case _:
            return value


def shared_places(defaults: Fields) -> dict[str, Place]:
    """Where `defaults:` says what it says."""
    return {key: Place(line, shared=True) for key, line in defaults.key_lines().items()}


def _places(fields: Fields) -> dict[str, Place]:
    lines = fields.key_lines()
    lines |= {f"env.{name}": line for name, line in fields.key_lines("env").items()}
    return {key: Place(line) for key, line in lines.items()}


def _require_source(fields: Fields) -> None:
    """Refuse an entry that does not say what its agent is made from, or says it twice."""
    if "module" in fields and "card" in fields:
        fields.refuse(
            "card", "stands beside `module:`, and an agent is made from one of them", "remove one of the two"
        )
    elif "card" not in fields:
        fields.require(
            "module",
            "name the Python module that defines the agent, as in `module: agents.jarvis`, or its agent card, as in "
            "`card: cards/jarvis.md`",
        )


def _source(
    fields: Fields,
    key: str,
    read: Callable[[str], AgentSource | Complaint],
    complaint_about: Callable[[AgentSource], Complaint | None],
) -> AgentSource | None:
    text = fields.text(key)
    if text is None:
        return None
    found = read(text)
    complaint = found if isinstance(found, Complaint) else complaint_about(found)
    if complaint is not None:
        fields.refuse(key, *complaint)
        return None
    return found if isinstance(found, AgentSource) else None


def _settings(fields: Fields, inherited: AgentSettings) -> dict[str, Any]:
    """What `fields` say of the settings that agents can share; of the others, what is inherited."""
    return {name: _setting(fields, name, rule, getattr(inherited, name)) for name, rule in RULES.items()}


def _setting(fields: Fields, key: str, rule: Rule, inherited: object) -> object:
    value: object
    match rule:
        case WholeNumber(minimum):
            value = fields.whole_number(key, minimum)
        case Seconds(minimum):
            value = fields.seconds(key, minimum)
        case Choice(words):
            value = fields.choice(key, words)
        case Truth():
            value = fields.truth(key)
        case Size(minimum):
            if fields.says_none(key):
                return None
            value = fields.size(key, minimum)
    return inherited if value is None else value


def _dependencies(name: str, fields: Fields, agents: Collection[str] | None) -> tuple[str, ...]:
    """The names, of `agents` where those are known."""
    found: dict[str, None] = {}
    for dependency, line in fields.texts("depends_on"):
        shown = quoted(dependency)
        if dependency == name:
            fields.add(line, "depends_on", "names the agent itself", "remove it")
        elif dependency in found:
            fields.add(line, "depends_on", f"names {shown} twice", "remove one of the two")
        elif agents is None and (complaint := rules.agent_name(dependency)):
            fields.add(line, "depends_on", f"{shown} {complaint.message}", complaint.remedy)
        elif agents is not None and dependency not in agents:
            near = fields.near(dependency, agents)
            remedy = (
                f"did you mean {near!r}?"
                if near not in (None, name)
                else "describe it under `agents:`, or remove it"
            )
            fields.add(line, "depends_on", f"there is no agent {shown}", remedy)
        else:
            found[dependency] = None
    return tuple(found)


def _models(fields: Fields) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for model, line in fields.texts("models"):
        if complaint := rules.model(model):
            fields.add(line, "models", *complaint)
        elif model in found:
            fields.add(line, "models", f"names {quoted(model)} twice", "remove one of the two")
        found[model] = None
    return tuple(found)


def _python(fields: Fields, folder: Path, is_executable: Callable[[Path], bool]) -> str | None:
    value = fields.text("python")
    if value is None:
        return None
    interpreter = absolute(folder / value)
    try:
        if is_executable(interpreter):
            return str(interpreter)
    except (OSError, ValueError):
        pass
    fields.refuse(
        "python",
        f"{quoted(str(interpreter), 200)} is not an executable file",
        "name the Python of the agent's own environment, relative to this file",
    )
    return None


def _environment(fields: Fields) -> dict[str, str]:
    variables: dict[str, str] = {}
    section = fields.section("env")
    if section is None:
        return variables
    for name in section:
        value = section.scalar(name)
        if complaint := rules.environment_name(name):
            section.refuse(name, *complaint)
        elif value is None:
            continue
        elif complaint := rules.environment_value(name, value):
            section.refuse(name, *complaint)
        else:
            variables[name] = value
    return variables
