"""From a configuration to what one worker is passed: the specification, which is pure, and what a start needs first."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from pallas_common.http.hosts import served_hosts
from pallas_common.processes.tree import OWNER_VARIABLE
from pallas_common.processes.way_out import reached_directly
from pallas_common.protocol.agent.settings import settings_of
from pallas_common.protocol.agent.sibling import MOST_SIBLINGS, Sibling
from pallas_common.protocol.gateway import WorkerToken, gateway_urls
from pallas_common.protocol.keys import http_origins, local_names
from pallas_common.protocol.spec import WorkerSpec
from pallas_common.secrets.tokens import new_token, token_digest
from pallas_registry.configured_secrets import configured_secrets
from pallas_registry.environment.dotenv import worker_environment
from pallas_registry.resources.secret_values import values_for
from pallas_supervisor.lifecycle.dependencies import Graph
from pallas_supervisor.lifecycle.states import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pallas_common.secrets.values import KnownSecrets
    from pallas_registry.deployment.model import Agent, Deployment
    from pallas_registry.source import Configuration
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.lifecycle.states import WorkerId
    from pallas_supervisor.reload.drift import Drift
    from pallas_supervisor.telemetry.start_traces import StartTraces
    from pallas_supervisor.telemetry.store import MetricsStore


def policy_of(agent: Agent) -> Policy:
    """The machine's part of an agent's definition."""
    return Policy(**{field.name: getattr(agent, field.name) for field in fields(Policy)})


def policies_of(deployment: Deployment) -> dict[str, Policy]:
    """The machine's part of all agents' definitions."""
    return {name: policy_of(agent) for name, agent in deployment.agents.items()}


def graph_of(deployment: Deployment) -> Graph:
    """The deployment's dependencies."""
    return Graph({name: agent.depends_on for name, agent in deployment.agents.items()})


def worker_spec(
    configuration: Configuration,
    *,
    name: str,
    generation: int,
    environ: Mapping[str, str],
    directory: str,
    metrics: tuple[str, str],
    listener_outlives: bool = False,
    key: str | None = None,
    siblings_key: str | None = None,
    token: str | None = None,
) -> WorkerSpec:
    """What the worker of this start of an agent is passed.

    Args:
        environ: the supervisor's environment.
        directory: the worker's working directory.
        metrics: directory and slot in which it counts.
        listener_outlives: the service manager holds the listening socket, too.
        key: what callers of this start show who may override the agent's definition.
        siblings_key: what agents of the deployment show each other.
        token: by which it uses the gateway.
    """
    deployment = configuration.deployment
    agent = deployment.agents[name]
    hosts = served_hosts(deployment.host, deployment.hosts, deployment.bind)
    urls = () if deployment.gateway is None else gateway_urls(deployment.gateway, deployment.host)
    gateway = [named for url in urls if (named := urlsplit(url).hostname)]
    environment = reached_directly(worker_environment(environ, agent.env), (*hosts, *gateway))
    environment[OWNER_VARIABLE] = f"{name}/{generation}"
    return WorkerSpec(
        agent=name,
        source=agent.source,
        key=key,
        siblings_key=siblings_key,
        sibling_urls=agent_urls(deployment) if agent.definition is None else (),
        is_behind=deployment.workers_behind,
        token=token,
        gateway_urls=urls,
        title=agent.title,
        description=agent.description,
        output_schema=agent.output_schema,
        definition=agent.definition,
        secrets={} if agent.definition is None else values_for(agent.definition, configuration.resources),
        version=deployment.version,
        deployment=deployment.name,
        port=agent.port,
        generation=generation,
        directory=directory,
        listener_outlives=listener_outlives,
        allowed_hosts=hosts,
        metrics_directory=metrics[0],
        metrics_slot=metrics[1],
        log_level=configuration.levels.pallas,
        root_log_level=configuration.levels.root,
        default_model=configuration.settings.default_model,
        models=agent.models,
        capabilities=configuration.settings.capabilities,
        probe_interval=configuration.probe_interval,
        siblings=_siblings(deployment, agent),
        environment=environment,
        **settings_of(agent),
    )


def agent_urls(deployment: Deployment) -> tuple[str, ...]:
    """By which the ports of agents are reached on this machine, each without a path.

    Only the code and files of the deployment itself lead there with the siblings' key: who declares a server need not
    have a right to run the agent that is there.
    """
    ports = [agent.port for agent in deployment.agents.values() if agent.port is not None]
    return http_origins(local_names(deployment.agents_bind), ports)


def _siblings(deployment: Deployment, agent: Agent) -> tuple[Sibling, ...]:
    """The agents that this one may have among its servers: its dependencies first, then those that start on demand."""
    agents = deployment.agents
    on_demand = (name for name, other in agents.items() if other.start == "on-demand")
    names = dict.fromkeys((*agent.depends_on, *on_demand, *agents))
    found = (
        Sibling(
            name=name,
            port=other.port,
            title=other.title,
            description=other.description,
            output_schema=other.output_schema,
            on_demand=other.start == "on-demand",
        )
        for name in names
        if (other := agents[name]).port is not None and name != agent.name
    )
    return tuple(itertools.islice(found, MOST_SIBLINGS))


class MadeKeys(NamedTuple):
    """What one start of an agent is known by."""

    key: str
    token: str | None


class StartKeys:
    """The key of each worker that may be there, and the digest of its token. The token itself only the worker has."""

    def __init__(self) -> None:
        self.siblings = secrets.token_urlsafe(32)
        """That all agents have, to call each other."""
        self._kept: dict[WorkerId, tuple[str, str | None]] = {}

    def make(self, worker_id: WorkerId, *, with_token: bool) -> MadeKeys:
        """New ones, for a worker that is about to start."""
        made = MadeKeys(secrets.token_urlsafe(32), new_token("agent") if with_token else None)
        self._kept[worker_id] = (made.key, None if made.token is None else token_digest(made.token))
        return made

    def key(self, worker_id: WorkerId) -> str | None:
        """The key of a worker; None where there is none."""
        return self._kept.get(worker_id, (None, None))[0]

    def tokens(self) -> dict[str, list[WorkerToken]]:
        """By agent, the tokens of all its workers, the oldest first."""
        found: dict[str, list[WorkerToken]] = {}
        for (name, generation), (_, digest) in self._kept.items():
            if digest is not None:
                found.setdefault(name, []).append(WorkerToken(generation=generation, digest=digest))
        return found

    def process_gone(self, worker_id: WorkerId) -> None:
        """Nothing is left of the worker: what it was known by counts no more."""
        self._kept.pop(worker_id, None)


class StartPreparation:
    """Prepares the start of a worker.

    Args:
        keys: makes and keeps those of each start.
        directory: working directory of the workers.
        known_secrets: what no log line may show.
        outlives: whether the agent's socket is there for the next supervisor, too.
    """

    def __init__(
        self,
        engine: Engine,
        drift: Drift,
        store: MetricsStore,
        traces: StartTraces,
        *,
        keys: StartKeys,
        directory: str,
        known_secrets: KnownSecrets,
        outlives: Callable[[str], bool],
    ) -> None:
        self._engine = engine
        self._drift = drift
        self._store = store
        self._traces = traces
        self._keys = keys
        self._directory = directory
        self._known_secrets = known_secrets
        self._outlives = outlives

    async def prepare(self, worker_id: WorkerId) -> WorkerSpec:
        """The specification for the worker of this start of an agent. On the way, in this order:

        - what fast-agent would read now is noted as what the worker was started with,
        - the start's trace begins,
        - a slot is taken in which the worker counts,
        - the secrets of its environment and files become known to the log.
        """
        name, generation = worker_id
        drift, store = self._drift, self._store
        files = await asyncio.to_thread(drift.fingerprints, name)
        drift.record(name, generation, files, serving=self._engine.agents[name].generation)
        self._traces.begin(name, generation)
        taken = drift.taken
        made = self._keys.make(worker_id, with_token=taken.deployment.gateway is not None)
        spec = worker_spec(
            taken,
            name=name,
            generation=generation,
            environ=os.environ,
            directory=self._directory,
            metrics=(str(store.directory), store.slot(name, generation)),
            listener_outlives=self._outlives(name),
            key=made.key,
            siblings_key=self._keys.siblings,
            token=made.token,
        )
        # The files may have changed since the last start, and each agent has an environment of its own.
        await asyncio.to_thread(self._learn_secrets, spec.environment)
        return spec

    def _learn_secrets(self, environment: Mapping[str, str]) -> None:
        self._known_secrets.add(configured_secrets(Path(self._directory), environment))
