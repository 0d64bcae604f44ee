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
KEYS = tuple(key for key in effects(dataclasses.fields(Agent)) if key != "definition")
"""Of an entry."""


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


def _dependencies(name: str, fields: Fields, agents: Collection[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for dependency, line in fields.texts("depends_on"):
        shown = quoted(dependency)
        if dependency == name:
            fields.add(line, "depends_on", "names the agent itself", "remove it")
        elif dependency in found:
            fields.add(line, "depends_on", f"names {shown} twice", "remove one of the two")
        elif dependency not in agents:
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
    interpreter = (folder / value).absolute()
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
