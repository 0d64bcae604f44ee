"""`agents.yaml`, strictly read: a `Deployment`, or every problem of the file in one go.

Knows the file's keys, defaults and how they depend on each other. Reads the file and looks at the named
interpreters; starts nothing and imports no agent.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError, Problem, quoted
from pallas_registry.deployment.agent_entry import (
    BUILT_IN,
    UNREAD_PORT,
    Look,
    read_agent,
    read_defaults,
    shared_places,
)
from pallas_registry.deployment.dependencies import cycles
from pallas_registry.deployment.gateway_section import read_gateway
from pallas_registry.deployment.location import absolute, read_bytes
from pallas_registry.deployment.model import Agent, Deployment, Place, slug
from pallas_registry.deployment.source_files import source_complaint
from pallas_registry.reading import rules
from pallas_registry.reading.fields import Fields
from pallas_registry.reading.nodes import compose

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


DEFAULT_REGISTRY_PORT = 24200
MOST_PRELOADED = 50

KEYS = (
    "name",
    "version",
    "host",
    "hosts",
    "namespace",
    "registry_port",
    "bind",
    "max_surge",
    "preload",
    "gateway",
    "defaults",
    "agents",
)


def read_deployment(path: Path, directory: Path | None = None) -> Deployment:
    """The deployment that the file at `path` describes. Its `path` is absolute.

    Args:
        directory: the agents' working directory; None for the folder of the file.

    Raises:
        ConfigurationError: the file cannot be read, or anything in it is wrong; all problems, in file order.
    """
    return parse_deployment(read_bytes(path), path, files_in(directory or path.parent))


def files_in(directory: Path) -> Look:
    """A look at real files, with `directory` as the agents' working directory."""
    return Look(
        is_executable=lambda path: path.is_file() and os.access(path, os.X_OK),
        at_source=lambda source: source_complaint(source, directory),
    )


def parse_deployment(data: bytes, path: Path, look: Look) -> Deployment:
    """The deployment that `data`, the content of the file at `path`, describes.

    `path` names the file in problems, and its folder is where relative interpreters are looked up, with `look`.

    Raises:
        ConfigurationError: anything is wrong; all problems, in file order.
    """
    file = str(path)
    root = compose(data, file)
    if root is None:
        remedy = "write at least `name:`, and your agents below `agents:`"
        raise ConfigurationError([Problem(file, None, "", "is empty", remedy)])
    problems: list[Problem] = []
    fields = Fields(root, file=file, field="", line=1, problems=problems)
    deployment = _deployment(fields, path, look) if fields.is_mapping else None
    if deployment is None or problems:
        raise ConfigurationError(sorted(problems, key=lambda problem: problem.line or 0))
    return deployment


def _deployment(fields: Fields, path: Path, look: Look) -> Deployment:
    """The deployment as far as it could be read; it is worth something only if no problem was noted."""
    fields.only(KEYS)
    fields.require("name", "name the deployment, as in `name: my-project`")
    name = fields.text("name", rules.deployment_name)
    version = fields.text("version", rules.version)
    host = fields.text("host", rules.host) or "localhost"
    hosts = _hosts(fields)
    namespace = fields.text("namespace", rules.namespace)
    if namespace is None and "namespace" not in fields and name is not None:
        namespace = f"local.{name}"
        if complaint := rules.namespace(namespace):
            message = f"no namespace is given, and {complaint.message}"
            remedy = "use letters, digits, `.` and `-`, as in `my-project`, or set `namespace:` as well"
            fields.refuse("name", message, remedy)
            namespace = None
    default_port = None if "registry_port" in fields else DEFAULT_REGISTRY_PORT
    registry_port = fields.whole_number("registry_port", 1, 65535) or default_port
    bind = fields.text("bind", rules.bind) or rules.default_bind(host)
    of_gateway = _gateway_section(fields)
    gateway = None if of_gateway is None else read_gateway(of_gateway, host=host, bind=bind)

    preload = _preload(fields)

    shared = fields.section("defaults")
    defaults = read_defaults(shared) if shared is not None else BUILT_IN
    places = shared_places(shared) if shared is not None else {}
    agents: dict[str, Agent] = {}
    takers: dict[int, str] = {}
    if registry_port:
        takers[registry_port] = "the registry's port" + (" by default" if default_port is not None else "")
    section = fields.section("agents")
    if section is not None:
        sections = {name: agent for name in section if (agent := section.section(name))}
        agents = {
            name: read_agent(name, agent, sections, path.parent, look, defaults, places)
            for name, agent in sections.items()
        }
        _check_ports(agents, sections, takers)
        _check_slugs(agents, sections)
        _check_server_names(agents, sections, namespace)
        _check_cycles(agents, sections)
    if of_gateway is not None and gateway is not None:
        _check_gateway_port(of_gateway, gateway.port, takers)
    return Deployment(
        name=name or "",
        agents=agents,
        version=version or "1.0.0",
        host=host,
        hosts=hosts,
        namespace=namespace or "",
        registry_port=registry_port or UNREAD_PORT,
        bind=bind,
        gateway=gateway,
        path=absolute(path),
        max_surge=fields.whole_number("max_surge", 1) or 1,
        preload=tuple(preload),
        defaults=defaults,
        places={
            **{key: Place(line) for key, line in fields.key_lines().items()},
            **{f"gateway.{key}": Place(line) for key, line in fields.key_lines("gateway").items()},
            **{f"preload[{index}]": Place(line) for index, line in enumerate(preload.values())},
        },
    )


def _gateway_section(fields: Fields) -> Fields | None:
    """The mapping of `gateway:`; of one word, what to write in place of it."""
    if fields.is_empty("gateway"):
        message = "is empty"
    elif fields.is_truth("gateway"):
        message = "is a truth value, not a mapping"
    else:
        return fields.section("gateway")
    remedy = "write `gateway: {}` for a gateway with its defaults, or remove the line for none"
    fields.refuse("gateway", message, remedy)
    return None


def _hosts(fields: Fields) -> tuple[str, ...]:
    """More names and addresses of the deployment, each said once."""
    found: dict[str, None] = {}
    for index, (name, line) in enumerate(fields.texts("hosts")):
        place = f"hosts[{index}]"
        if complaint := rules.host(name):
            fields.add(line, place, *complaint)
        elif name.lower() in found:
            fields.add(line, place, f"names {quoted(name)} twice", "remove one of the two")
        else:
            found[name.lower()] = None
    return tuple(found)


def _preload(fields: Fields) -> dict[str, int]:
    """The modules, each said once, and their lines."""
    found: dict[str, int] = {}
    for index, (name, line) in enumerate(fields.texts("preload")):
        place = f"preload[{index}]"
        if complaint := rules.module(name):
            fields.add(line, place, *complaint)
        elif name in found:
            fields.add(line, place, f"names {quoted(name)} twice", "remove one of the two")
        else:
            found[name] = line
    if len(found) > MOST_PRELOADED:
        message = f"names {len(found)} modules, {MOST_PRELOADED} are allowed"
        fields.refuse("preload", message, "write a module that imports them, and name it")
    return found


def _check_gateway_port(section: Fields, port: int, takers: Mapping[int, str]) -> None:
    """Refuse a port that the gateway would share with one of `takers`."""
    if taker := takers.get(port):
        own = "" if "port" in section else ", the gateway's port by default,"
        section.refuse(
            "port", f"{port}{own} is also {taker}", "give the gateway another one: `gateway: {port: …}`"
        )


def _check_ports(agents: Mapping[str, Agent], sections: Mapping[str, Fields], takers: dict[int, str]) -> None:
    """Refuse a port that two agents share, or an agent and one of `takers`."""
    for name, agent in agents.items():
        if agent.port is None or agent.port == UNREAD_PORT:
            continue
        if taker := takers.get(agent.port):
            sections[name].refuse(
                "port", f"{agent.port} is also {taker}", "give each agent a port of its own"
            )
        else:
            takers[agent.port] = f"the port of {name} (line {sections[name].line('port')})"


def _check_slugs(agents: Mapping[str, Agent], sections: Mapping[str, Fields]) -> None:
    """Refuse two agents that would be published under one name."""
    owners: dict[str, str] = {}
    for name in agents:
        owner = owners.setdefault(slug(name), name)
        if owner != name:
            message = f"is published as `{slug(name)}`, and so is {owner}"
            sections[name].refuse("", message, "rename one of the two")


def _check_server_names(
    agents: Mapping[str, Agent], sections: Mapping[str, Fields], namespace: str | None
) -> None:
    """Refuse a name that is too long once it stands behind the namespace (ServerDetail.name)."""
    for name in agents if namespace else ():
        length = len(f"{namespace}/{slug(name)}")
        if length > rules.SERVER_NAME_LENGTH:
            message = f"its server name has {length} characters, {rules.SERVER_NAME_LENGTH} are allowed"
            sections[name].refuse("", message, "shorten the namespace or the agent's name")


def _check_cycles(agents: Mapping[str, Agent], sections: Mapping[str, Fields]) -> None:
    """Refuse agents that wait for each other."""
    for cycle in cycles({name: agent.depends_on for name, agent in agents.items()}):
        circle = " → ".join((*cycle, cycle[0]))
        sections[cycle[0]].refuse("depends_on", f"is a cycle: {circle}", "remove one of these dependencies")
