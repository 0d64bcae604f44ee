"""From a configuration to what one worker is passed. Pure but for the environment that it is given."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from pallas_common.http.hosts import served_hosts
from pallas_common.protocol.agent_settings import settings_of
from pallas_common.protocol.spec import WorkerSpec
from pallas_registry.environment.dotenv import worker_environment
from pallas_supervisor.lifecycle.states import Policy
from pallas_supervisor.processes.linux.process_tree import OWNER_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_registry.deployment.model import Agent
    from pallas_registry.source import Configuration


def policy_of(agent: Agent) -> Policy:
    """The machine's part of an agent's definition."""
    return Policy(**{field.name: getattr(agent, field.name) for field in fields(Policy)})


def worker_spec(
    configuration: Configuration,
    *,
    name: str,
    generation: int,
    environ: Mapping[str, str],
    directory: str,
    metrics: tuple[str, str],
    listener_outlives: bool = False,
    probe_key: str | None = None,
) -> WorkerSpec:
    """What the worker of this start of an agent is passed.

    Args:
        environ: the supervisor's environment.
        directory: the worker's working directory.
        metrics: directory and slot in which it counts.
        listener_outlives: the service manager holds the listening socket, too.
        probe_key: names the probes that workers share.
    """
    deployment = configuration.deployment
    agent = deployment.agents[name]
    environment = worker_environment(environ, agent.env)
    environment[OWNER_VARIABLE] = f"{name}/{generation}"
    return WorkerSpec(
        agent=name,
        module=agent.module,
        title=agent.title,
        description=agent.description,
        version=deployment.version,
        deployment=deployment.name,
        port=agent.port,
        generation=generation,
        directory=directory,
        listener_outlives=listener_outlives,
        allowed_hosts=served_hosts(deployment.host, deployment.hosts, deployment.bind),
        metrics_directory=metrics[0],
        metrics_slot=metrics[1],
        log_level=configuration.levels.pallas,
        root_log_level=configuration.levels.root,
        default_model=configuration.settings.default_model,
        capabilities=configuration.settings.capabilities,
        probe_interval=configuration.probe_interval,
        probe_key=probe_key,
        environment=environment,
        **settings_of(agent),
    )
