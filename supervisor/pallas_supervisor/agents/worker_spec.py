"""From a deployment to what one worker is told. Pure but for the environment that it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.http.hosts import served_hosts
from pallas_common.protocol.notices import probe_interval
from pallas_common.protocol.spec import WorkerSpec
from pallas_registry.environment.dotenv import worker_environment
from pallas_supervisor.lifecycle.states import Policy
from pallas_supervisor.processes.linux.process_tree import OWNER_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.logs.setup import Levels
    from pallas_registry.deployment.model import Agent, Deployment, ModelSettings


def policy_of(agent: Agent) -> Policy:
    """The machine's part of an agent's definition."""
    return Policy(
        restart=agent.restart,
        start_timeout=agent.start_timeout,
        stop_timeout=agent.stop_timeout,
        max_failures=agent.max_failures,
        reset_after=agent.reset_after,
        on_dependency_loss=agent.on_dependency_loss,
    )


def worker_spec(
    deployment: Deployment,
    settings: ModelSettings,
    *,
    name: str,
    generation: int,
    environ: Mapping[str, str],
    directory: str,
    metrics: tuple[str, str],
    levels: Levels,
    listener_outlives: bool = False,
    probe_key: str | None = None,
) -> WorkerSpec:
    """What the worker of this start of an agent is told.

    Args:
        environ: the supervisor's environment.
        directory: the worker's working directory.
        metrics: directory and slot in which it counts.
        listener_outlives: the service manager holds the listening socket, too.
        probe_key: names the probes that workers share.
    """
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
        stop_timeout=agent.stop_timeout,
        log_level=levels.pallas,
        root_log_level=levels.root,
        default_model=settings.default_model,
        capabilities=settings.capabilities,
        max_concurrency=agent.max_concurrency,
        max_queue=agent.max_queue,
        max_request_bytes=agent.max_request_bytes,
        liveness_interval=agent.liveness_interval,
        memory_limit=agent.memory_limit,
        probe_interval=probe_interval(environ),
        slow_after=agent.slow_after,
        probe_key=probe_key,
        environment=environment,
    )
