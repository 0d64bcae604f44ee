"""One agent as one document: what it is, what is in effect and from where, what runs, and what went wrong lately.

Asks the parts that know; decides nothing. Where a worker has said something, only what has room is passed on.
"""

from __future__ import annotations

import logging
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pallas_common.problems import no_such_agent, shortened
from pallas_registry.catalogue.entries import endpoint, page_url
from pallas_registry.resources.files import file_of
from pallas_registry.resources.model import ResourceId
from pallas_registry.resources.text import to_document
from pallas_supervisor.agents.description.configuration import configuration_document
from pallas_supervisor.agents.description.settings import (
    RESOURCE,
    agent_settings,
    declared_settings,
    environment_settings,
    variables,
)
from pallas_supervisor.agents.errors import UnknownAgentError
from pallas_supervisor.health.document import agent_health
from pallas_supervisor.health.past_exits import at, log_line, records
from pallas_supervisor.health.remedies import remedy
from pallas_supervisor.lifecycle.states import WITH_PROCESS, WorkerId

if TYPE_CHECKING:
    from pallas_common.protocol.reports import ReadyReport
    from pallas_common.secrets.values import KnownSecrets
    from pallas_registry.deployment.model import Agent as DeployedAgent
    from pallas_registry.resources.model import Resource
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.agents.status import StatusView
    from pallas_supervisor.health.past_exits import PastExits
    from pallas_supervisor.lifecycle.states import Agent
    from pallas_supervisor.logs.router import LogRouter
    from pallas_supervisor.reload.drift import Drift

ERRORS = 10
"""Log records of warnings and errors that are told."""


class Descriptions:
    """Describes agents, and the configuration in effect.

    Args:
        exits: how workers ended.
    """

    def __init__(
        self,
        engine: Engine,
        drift: Drift,
        status: StatusView,
        router: LogRouter,
        exits: PastExits,
    ) -> None:
        self._engine = engine
        self._drift = drift
        self._status = status
        self._router = router
        self._exits = exits

    @property
    def _secrets(self) -> KnownSecrets:
        return self._router.secrets

    async def configuration(self) -> dict[str, Any]:
        """The document of `GET /v1/configuration`."""
        await self._drift.look()
        return configuration_document(self._drift, self._secrets)

    async def agent(self, name: str) -> dict[str, Any]:
        """The document of `GET /v1/agents/<name>`.

        Raises:
            UnknownAgentError: there is no such agent.
        """
        await self._drift.look()
        engine, drift = self._engine, self._drift
        if (agent := engine.agents.get(name)) is None:
            raise UnknownAgentError(no_such_agent([name], engine.agents))
        deployed = drift.deployment.agents[name]
        taken = drift.taken
        resource = (
            taken.assembly.kept.resources.get(ResourceId("agent", name)) if deployed.definition else None
        )
        [status] = self._status.entries([name])
        health = self._status.health_document()["agents"][name]
        said = self._status.reports.model(agent)
        commands = {
            server.name: _text(server.target)
            for server in (() if said is None else said.servers)
            if server.transport == "stdio"
        }
        return {
            "kind": "agent",
            "name": name,
            "title": deployed.title,
            "description": deployed.description,
            "deployment": drift.deployment.name,
            "status": status,
            "health": {**health, "remedy": remedy(agent, health, engine.awaited(name), commands)},
            "definition": self._definition(resource, status["source"]),
            "source": self._source(deployed),
            "resource": None
            if resource is None
            else to_document(resource, digest=taken.assembly.kept.digest),
            "settings": agent_settings(deployed)
            if resource is None
            else declared_settings(deployed, resource.spec, taken.base.defaults),
            "environment_settings": environment_settings(drift.taken, os.environ),
            "env": variables(deployed, self._secrets),
            "served": self._served(agent, health),
            "depends_on": self._related(deployed.depends_on),
            "dependents": self._related(engine.graph.dependents(name)),
            "urls": self._urls(deployed, status["url"]),
            "process": self._process(agent, status["resident_memory"]),
            "exits": self._exits.of(name),
            "errors": self._errors(name),
        }

    def _definition(self, resource: Resource | None, source: dict[str, Any]) -> dict[str, Any]:
        directory = self._drift.taken.state_directory
        if resource is None or directory is None:
            return {"file": source.get("file"), "line": source.get("line")}
        return {"file": str(file_of(directory, resource.id)), "line": None}

    def _source(self, deployed: DeployedAgent) -> dict[str, Any]:
        return {
            "kind": deployed.source.key if deployed.definition is None else RESOURCE,
            "value": str(deployed.source),
            "directory": str(self._drift.source.directory),
            "python": deployed.python,
        }

    def _served(self, agent: Agent, health: dict[str, Any]) -> dict[str, Any] | None:
        said = self._status.reports.model(agent)
        if said is None:
            return None
        looked_at = {server["name"]: server for server in health.get("downstreams", ())}
        return {
            "agent": _text(said.served or agent.name),
            "model": None if said.model is None else _text(said.model),
            "capabilities": None if said.capabilities is None else asdict(said.capabilities),
            "provider": health.get("provider"),
            "parts": [asdict(part) for part in said.parts],
            "servers": [
                *({**asdict(server), "health": looked_at.get(server.name)} for server in said.servers),
                *_others(said, looked_at),
            ],
            "left_out": said.left_out,
        }

    def _related(self, names: Any) -> list[dict[str, Any]]:
        related = []
        for name in names:
            agent = self._engine.agents[name]
            health = agent_health(agent, self._status.reports.health(agent))
            related.append({"name": name, "state": str(agent.state), "health": health})
        return related

    def _urls(self, deployed: DeployedAgent, published: str | None) -> dict[str, Any]:
        drift, name = self._drift, deployed.name
        # Where the gateway is the agent's door, its own port is for this machine.
        host = "localhost" if drift.deployment.workers_behind else drift.deployment.host
        own = endpoint(host, deployed.port)
        return {
            "mcp": published,
            "metrics": None if own is None else f"{own.removesuffix('/mcp')}/metrics",
            "page": None if drift.source.only else f"{page_url(drift.deployment)}#agent-{name}",
        }

    def _process(self, agent: Agent, memory: int | None) -> dict[str, Any] | None:
        if agent.state not in WITH_PROCESS:
            return None
        return {
            "pid": agent.pid,
            "generation": agent.generation,
            "started": at(self._exits.started(WorkerId(agent.name, agent.generation))),
            "memory": memory,
        }

    def _errors(self, name: str) -> list[dict[str, Any]]:
        lines = self._router.newest([name], ERRORS, level=logging.WARNING)
        return [
            {**log_line(record)._asdict(), "logger": _text(str(record.get("logger", "")))}
            for record in records(lines)
        ]


def _text(text: str) -> str:
    return shortened(text, 200)


def _others(said: ReadyReport, looked_at: dict[str, Any]) -> list[dict[str, Any]]:
    """Servers that are probed and that had no room in what the worker said of itself."""
    known = {server.name for server in said.servers}
    return [
        {"name": name, "transport": None, "target": "", "forwards_bearer": False, "health": health}
        for name, health in looked_at.items()
        if name not in known
    ]
