"""One agent's mapping in `agents.yaml`, read as an `Agent`.

Knows the keys of an agent and their defaults; of the other agents only their names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pallas_common.problems import quoted
from pallas_common.protocol.limits import MINIMUM_LIVENESS_INTERVAL
from pallas_registry.deployment.model import Agent, DependencyLossPolicy, RestartPolicy
from pallas_registry.reading import rules

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from pallas_registry.reading.fields import Fields

UNREAD_PORT = 0
"""Stands for a port that is missing or was refused."""

BUILT_IN = Agent(name="", module="", port=UNREAD_PORT, title="", description="")
"""What every agent has of its own accord: the defaults of the fields that agents can share."""

MINIMUM_REQUEST_BYTES = 1024
MINIMUM_SLOW_AFTER = 0.01
MINIMUM_MEMORY = 192 * 1024**2
"""Bytes; a worker that has only just started takes three quarters of it."""

_SHARED_KEYS = (
    "restart",
    "start_timeout",
    "stop_timeout",
    "max_failures",
    "reset_after",
    "on_dependency_loss",
    "max_concurrency",
    "max_queue",
    "max_request_bytes",
    "liveness_interval",
    "liveness_misses",
    "memory_limit",
    "slow_after",
)
_KEYS = ("module", "port", "title", "description", "depends_on", "icon", "python", "env", *_SHARED_KEYS)


def read_defaults(fields: Fields) -> Agent:
    """What `defaults:` says for all agents, over what is built in; its other fields mean nothing."""
    fields.only(_SHARED_KEYS)
    return _with_shared(BUILT_IN, fields)


def read_agent(
    name: str,
    fields: Fields,
    agents: Collection[str],
    folder: Path,
    is_executable: Callable[[Path], bool],
    defaults: Agent = BUILT_IN,
) -> Agent:
    """The agent as far as it could be read; worth something only if no problem was noted.

    `agents` are the names of all agents of the file and `folder` is where the file lies. `title` becomes
    `name.title()`, `description` the title. `python` becomes an absolute path, with symbolic links kept: a
    virtual environment is found by the link's own place. `env` values are taken as they are written.
    `defaults` holds the shared fields of those agents that do not say them.
    """
    fields.only(_KEYS)
    if complaint := rules.agent_name(name):
        fields.refuse("", *complaint)
    fields.require("module", "name the Python module that defines the agent, as in `module: agents.jarvis`")
    fields.require("port", "give the agent a port of its own, as in `port: 8201`")
    title = fields.line_of_text("title", rules.published_text) or name.title()
    return replace(
        _with_shared(defaults, fields),
        name=name,
        module=fields.text("module", rules.module) or "",
        port=fields.whole_number("port", 1, 65535) or UNREAD_PORT,
        title=title,
        description=fields.line_of_text("description", rules.published_text) or title,
        depends_on=_dependencies(name, fields, agents),
        icon=fields.text("icon", rules.icon),
        python=_python(fields, folder, is_executable),
        env=_environment(fields),
    )


def _with_shared(agent: Agent, fields: Fields) -> Agent:
    """The agent with what `fields` say of the keys that agents can share."""
    restart = fields.choice("restart", ("always", "on-failure", "never"))
    loss = fields.choice("on_dependency_loss", ("keep", "restart"))
    queue = fields.whole_number("max_queue", 0)
    misses = fields.whole_number("liveness_misses", 0)
    return replace(
        agent,
        restart=cast("RestartPolicy | None", restart) or agent.restart,
        start_timeout=fields.seconds("start_timeout") or agent.start_timeout,
        stop_timeout=fields.seconds("stop_timeout") or agent.stop_timeout,
        max_failures=fields.whole_number("max_failures", 1) or agent.max_failures,
        reset_after=fields.seconds("reset_after") or agent.reset_after,
        on_dependency_loss=cast("DependencyLossPolicy | None", loss) or agent.on_dependency_loss,
        max_concurrency=fields.whole_number("max_concurrency", 1) or agent.max_concurrency,
        max_queue=agent.max_queue if queue is None else queue,
        max_request_bytes=fields.whole_number("max_request_bytes", MINIMUM_REQUEST_BYTES)
        or agent.max_request_bytes,
        liveness_interval=fields.seconds("liveness_interval", MINIMUM_LIVENESS_INTERVAL)
        or agent.liveness_interval,
        liveness_misses=agent.liveness_misses if misses is None else misses,
        memory_limit=None
        if fields.says_none("memory_limit")
        else fields.size("memory_limit", MINIMUM_MEMORY) or agent.memory_limit,
        slow_after=fields.seconds("slow_after", MINIMUM_SLOW_AFTER) or agent.slow_after,
    )


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
                f"did you mean `{near}`?"
                if near not in (None, name)
                else "describe it under `agents:`, or remove it"
            )
            fields.add(line, "depends_on", f"there is no agent {shown}", remedy)
        else:
            found[dependency] = None
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
