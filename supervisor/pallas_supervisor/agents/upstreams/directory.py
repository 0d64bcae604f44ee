"""What `GET /v1/upstreams` says: where agents are called, what they may use, and by what their tokens are known.

Holds keys and the secrets of servers, for the gateway's process alone. A server that the gateway cannot connect to is
left out, with a line in the log; so is the gateway itself, which would call itself in circles.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from pallas_common.logs.setup import get_logger
from pallas_common.problems import shortened
from pallas_common.protocol.gateway import (
    AgentUpstream,
    ProjectPrompt,
    ProjectUpstream,
    ServerUpstream,
    Upstreams,
    gateway_urls,
)
from pallas_common.protocol.keys import KEY_HEADER, is_mcp_at
from pallas_common.secrets.references import with_secrets
from pallas_registry.environment.dotenv import worker_environment
from pallas_registry.fastagent_files.servers import INHERITED, configured_servers
from pallas_registry.resources.definitions import Definitions
from pallas_registry.resources.model import ResourceId
from pallas_registry.resources.secret_values import secret_values, values_for
from pallas_supervisor.agents.worker_spec import agent_urls
from pallas_supervisor.lifecycle.states import WorkerId
from pallas_supervisor.sockets.listeners import connectable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from pallas_common.protocol.agent.definition import ServerDefinition
    from pallas_common.protocol.gateway import WorkerToken
    from pallas_registry.deployment.model import Agent
    from pallas_registry.fastagent_files.servers import ConfiguredServers
    from pallas_registry.source import Configuration
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.agents.worker_spec import StartKeys
    from pallas_supervisor.health.reports import WorkerReports
    from pallas_supervisor.reload.drift import Drift
    from pallas_supervisor.sockets.agent_sockets import AgentSockets

HANDED_OVER = ("transport", "url", "headers", "command", "args", "env", "cwd", "read_timeout_seconds")
"""The settings of a server by which others connect."""
MOST_COMPLAINTS = 1000

_log = get_logger("pallas.supervisor.upstreams")


class UpstreamDirectory:
    """Knows all of them.

    Args:
        reports: what workers have said of themselves.
        directory: the agents' working directory.
    """

    def __init__(
        self,
        engine: Engine,
        drift: Drift,
        reports: WorkerReports,
        sockets: AgentSockets,
        keys: StartKeys,
        directory: Path,
    ) -> None:
        self._engine = engine
        self._drift = drift
        self._reports = reports
        self._sockets = sockets
        self._keys = keys
        self._directory = directory
        self._complained: set[str] = set()

    async def upstreams(
        self, agents: Collection[str] | None = None, projects: Collection[str] | None = None
    ) -> Upstreams:
        """What there is, or of it those that are named; what is not there is left out.

        Args:
            agents: None for all.
            projects: None for all.
        """
        taken = self._drift.taken
        deployed = taken.deployment.agents
        named = [name for name in deployed if agents is None or name in agents]
        environments = {
            name: worker_environment(os.environ, deployed[name].env)
            for name in named
            if deployed[name].definition is None
        }
        configured = await asyncio.to_thread(self._configured, environments)
        tokens = self._keys.tokens()
        return Upstreams(
            agents=tuple(
                self._agent(taken, deployed[name], tokens.get(name, ()), configured.get(name))
                for name in named
                if name in self._engine.agents
            ),
            projects=tuple(self._projects(taken, projects)),
        )

    # --- agents -------------------------------------------------------------------------------------------

    def _agent(
        self,
        taken: Configuration,
        agent: Agent,
        tokens: Iterable[WorkerToken],
        configured: ConfiguredServers | None,
    ) -> AgentUpstream:
        name, definition = agent.name, agent.definition
        resource = taken.resources.get(ResourceId("agent", name))
        metadata = None if resource is None else resource.metadata
        if definition is None:
            servers = self._of_module(name, configured, agent_urls(taken.deployment))
        else:
            secrets = values_for(definition, taken.resources)
            servers = {
                server.name: self._declared(server.name, server.settings, secrets, agent.env)
                for server in definition.servers
            }
        state = self._engine.agents[name]
        return AgentUpstream(
            name=name,
            uid=None if metadata is None or definition is None else metadata.uid,
            port=agent.port,
            socket=str(self._sockets.path(name)) if agent.port is None else None,
            host=connectable(taken.deployment.agents_bind),
            key=self._keys.key(WorkerId(name, state.generation)) if state.has_process else None,
            siblings_key=self._keys.siblings,
            tokens=tuple(tokens),
            max_concurrency=agent.max_concurrency,
            depends_on=agent.depends_on,
            servers=self._usable(taken, servers, [] if definition is None else definition.servers),
            tools=None if definition is None else definition.tools,
        )

    def _configured(self, environments: Mapping[str, Mapping[str, str]]) -> dict[str, ConfiguredServers]:
        """By agent, the servers in fast-agent's files; many agents have the same environment. Reads files."""
        read: dict[tuple[tuple[str, str], ...], ConfiguredServers] = {}
        found = {}
        for name, environment in environments.items():
            same = tuple(sorted(environment.items()))
            if same not in read:
                read[same] = configured_servers(self._directory, environment)
            found[name] = read[same]
        return found

    def _of_module(
        self, name: str, configured: ConfiguredServers | None, siblings: Collection[str]
    ) -> dict[str, Mapping[str, Any] | None]:
        """The servers that the agent's worker names: fast-agent's settings have those of others, too.

        Args:
            siblings: URLs of agents, which take calls with a key.
        """
        said = self._reports.model(self._engine.agents[name])
        if said is None or configured is None:
            return {}
        found: dict[str, Mapping[str, Any] | None] = {}
        for server in said.servers:
            found[server.name] = settings = configured.servers.get(server.name)
            if settings is None:
                why = configured.unread.get(
                    server.name, "it is in the agent's code alone, and in no settings"
                )
                self._complain(f"the gateway leaves out server {shortened(server.name)} of {name}: {why}")
            elif is_mcp_at(str(settings.get("url") or ""), siblings):
                shown = {KEY_HEADER: self._keys.siblings, **(settings.get("headers") or {})}
                found[server.name] = {**settings, "headers": shown}
        return found

    # --- what is declared ---------------------------------------------------------------------------------

    def _declared(
        self, name: str, settings: Mapping[str, Any], secrets: Mapping[str, str], env: Mapping[str, str]
    ) -> Mapping[str, Any] | None:
        """A declared server's settings with secrets filled in, as a process of `env` would start it."""
        try:
            said = {key: _filled(value, secrets) for key, value in settings.items() if key in HANDED_OVER}
        except KeyError as error:
            self._complain(f"the gateway leaves out server {name}: there is no secret {error.args[0]}")
            return None
        if said["transport"] == "stdio":
            environment = {**os.environ, **env}
            inherited = {name: environment[name] for name in INHERITED if name in environment}
            said["env"] = {**inherited, **said.get("env", {})}
            said["cwd"] = str(self._directory / said.get("cwd", "."))
        return said

    def _projects(self, taken: Configuration, named: Collection[str] | None) -> Iterator[ProjectUpstream]:
        resources = taken.resources
        projects = {
            name: project
            for name, project in resources.of("project").items()
            if (named is None or name in named) and project.id not in taken.disabled
        }
        if not projects:
            return
        definitions = Definitions(resources, lambda _: "")
        agents: dict[str, list[str]] = {}
        for name, agent in resources.of("agent").items():
            if name in taken.deployment.agents and "project" in agent.spec:
                agents.setdefault(agent.spec["project"], []).append(name)
        for name, project in projects.items():
            declared = [definitions.server(each) for each in project.spec.get("servers", ())]
            yield ProjectUpstream(
                name=name,
                description=project.spec.get("description", ""),
                servers=self._usable(taken, self._servers_of(taken, declared), declared),
                prompts=tuple(ProjectPrompt(**prompt) for prompt in project.spec.get("prompts", ())),
                agents=tuple(sorted(agents.get(name, ()))),
            )

    def _servers_of(
        self, taken: Configuration, declared: Iterable[ServerDefinition]
    ) -> dict[str, Mapping[str, Any] | None]:
        found: dict[str, Mapping[str, Any] | None] = {}
        for server in declared:
            resource = taken.resources[ResourceId("server", server.name)]
            secrets = dict(secret_values(resource, taken.resources))
            found[server.name] = self._declared(server.name, server.settings, secrets, {})
        return found

    # --- both ---------------------------------------------------------------------------------------------

    def _usable(
        self,
        taken: Configuration,
        servers: Mapping[str, Mapping[str, Any] | None],
        declared: Iterable[ServerDefinition],
    ) -> tuple[ServerUpstream, ...]:
        """Those that can be connected to and are not the gateway itself.

        Args:
            declared: those of them that are, which know where their URLs may lead.
        """
        closed = {server.name for server in declared if server.closed}
        gateway, host = taken.deployment.gateway, taken.deployment.host
        urls = () if gateway is None else gateway_urls(gateway, host)
        return tuple(
            ServerUpstream(name=name, settings=settings, closed=name in closed)
            for name, settings in servers.items()
            if settings and not is_mcp_at(settings.get("url") or "", urls)
        )

    def _complain(self, what: str) -> None:
        """Log it once."""
        if what not in self._complained and len(self._complained) < MOST_COMPLAINTS:
            self._complained.add(what)
            _log.warning(what)


def _filled(value: Any, secrets: Mapping[str, str]) -> Any:
    """The value with secrets in all of its texts.

    Raises:
        KeyError: one has no value; its `NAME/KEY`.
    """
    match value:
        case str():
            return with_secrets(value, secrets)
        case list() | tuple():
            return [_filled(each, secrets) for each in value]
        case dict():
            return {name: _filled(each, secrets) for name, each in value.items()}
        case _:
            return value
