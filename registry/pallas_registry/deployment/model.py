"""The deployment as frozen facts: what `agents.yaml` and our keys of fast-agent's settings say.

Knows no file format, no process and no clock. Instances are made by `agents_file` and `fastagent_files.models`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.protocol.agent.settings import AgentSettings, on_change
from pallas_common.protocol.agent.source import AgentSource
from pallas_registry.reading.rules import is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pallas_common.protocol.agent.definition import AgentDefinition
    from pallas_common.protocol.agent.llm import ModelCapabilities
    from pallas_common.protocol.gateway import GatewaySettings

NOTHING = AgentSource("module", "")
"""Stands for a source that is missing or was refused."""


class Place(NamedTuple):
    """Where a value stands in `agents.yaml`."""

    line: int
    """Counted from 1; of the key."""
    shared: bool = False
    """Below `defaults:`, for all agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent(AgentSettings):
    """One agent of the deployment, with its settings. Fields say what a change of them asks for."""

    name: str
    module: AgentSource | None = field(default=None, metadata=on_change("respawn"))
    card: AgentSource | None = field(default=None, metadata=on_change("respawn"))
    """The one of the two that the entry has."""
    definition: AgentDefinition | None = field(default=None, metadata=on_change("respawn"))
    """What the agent is made from that is declared as a resource: it has no entry."""
    port: int | None = field(metadata=on_change("rebind"))
    """None: it listens on a unix socket below the runtime directory."""
    title: str = field(metadata=on_change("respawn"))
    description: str = field(metadata=on_change("respawn"))
    depends_on: tuple[str, ...] = field(default=(), metadata=on_change("live"))
    icon: str | None = field(default=None, metadata=on_change("live"))
    output_schema: Mapping[str, object] | None = field(default=None, metadata=on_change("respawn"))
    """A JSON Schema that its answers have to fit."""
    models: tuple[str, ...] = field(default=(), metadata=on_change("respawn"))
    """Those that a call may have in place of the agent's own, as fast-agent writes them."""
    python: str | None = field(default=None, metadata=on_change("respawn"))
    env: Mapping[str, str] = field(default_factory=dict, metadata=on_change("respawn"))
    line: int | None = field(default=None, compare=False, repr=False)
    """Of the entry; lines are no part of what an agent is: those that differ in them alone are equal."""
    places: Mapping[str, Place] = field(default_factory=dict, compare=False, repr=False)
    """Where the fields are said that the file says; of a variable by `env.NAME`."""

    @property
    def source(self) -> AgentSource:
        """What the agent is made from."""
        if self.definition is not None:
            return AgentSource("definition", self.name)
        return self.module or self.card or NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The whole of `agents.yaml`; `agents` keeps the order of the file. A change asks the same of every agent."""

    name: str = field(metadata=on_change("fixed"))
    agents: Mapping[str, Agent]
    namespace: str = field(metadata=on_change("live"))
    max_surge: int = field(default=1, metadata=on_change("live"))
    """Agents that may have a second worker at a time, while they are replaced gracefully."""
    preload: tuple[str, ...] = field(default=(), metadata=on_change("live"))
    """Modules that are imported once, before workers are forked; one's line is the place of `preload[<index>]`."""
    version: str = field(default="1.0.0", metadata=on_change("respawn"))
    host: str = field(default="localhost", metadata=on_change("respawn"))
    hosts: tuple[str, ...] = field(default=(), metadata=on_change("respawn"))
    """More names and addresses by which clients reach the deployment."""
    registry_port: int = field(default=24200, metadata=on_change("fixed"))
    bind: str = field(metadata=on_change("fixed"))
    """Follows `host` by default."""
    gateway: GatewaySettings | None = None
    """None: there is none. Each of its fields says what a change of it asks for."""
    path: Path
    defaults: AgentSettings = field(default=AgentSettings(), compare=False, repr=False)
    """What `defaults:` says, over what is built in."""
    places: Mapping[str, Place] = field(default_factory=dict, compare=False, repr=False)
    """Where the fields are said that the file says; of the gateway's by `gateway.FIELD`."""

    @property
    def workers_behind(self) -> bool:
        """Whether agents' ports are for this machine alone, and others come by the gateway."""
        return self.gateway is not None and self.gateway.workers == "behind"

    @property
    def agents_bind(self) -> str:
        """The address on which the ports of agents listen."""
        return "127.0.0.1" if self.workers_behind and not is_loopback(self.bind) else self.bind


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Our keys of fast-agent's settings.

    `default_model` is written `provider.model-name`; `capabilities` is None when the file does not declare
    any, and then none are published. `log_level` is `logger.level`, in upper case.
    """

    default_model: str | None = None
    capabilities: ModelCapabilities | None = None
    log_level: str | None = None
    file: Path | None = field(default=None, compare=False)
    """Where they were read; None if there is no such file."""


def slug(agent: str) -> str:
    """The agent's name in the registry: underscores become hyphens, `tech_research` → `tech-research`."""
    return agent.replace("_", "-")
