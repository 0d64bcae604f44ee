"""From a configuration to what one process of the gateway is passed. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_common import __version__
from pallas_common.http.hosts import served_hosts
from pallas_common.processes.tree import OWNER_VARIABLE
from pallas_common.protocol.gateway import GATEWAY_NAME, GatewaySettings, GatewaySpec
from pallas_registry.environment.dotenv import worker_environment
from pallas_registry.environment.runtime_directory import DIRECTORY_VARIABLE
from pallas_registry.environment.variables import client_secret, gateway_store
from pallas_supervisor.lifecycle.states import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pallas_registry.source import Configuration

KEEPS_ENVIRONMENT = "SPT_NOENV"
"""Has setproctitle leave what the kernel shows of the environment, by which the process is found."""

STORE_FILE = "gateway.db"
"""Of the store that is used where none is named, in the state directory."""


def policy_of(settings: GatewaySettings) -> Policy:
    """The machine's part of the settings."""
    return Policy(stop_timeout=settings.stop_timeout, max_failures=settings.max_failures)


def gateway_spec(
    configuration: Configuration,
    settings: GatewaySettings,
    *,
    generation: int,
    environ: Mapping[str, str],
    control_socket: Path,
    state_directory: Path,
    metrics: tuple[str, str],
    listener_outlives: bool,
    waits_for_store: bool,
) -> GatewaySpec:
    """What the process of this start is passed.

    Args:
        environ: the supervisor's environment.
        state_directory: its working directory.
        metrics: directory and slot in which it counts.
        listener_outlives: the service manager holds the listening socket, too.
        waits_for_store: there is no process that could answer in its place.

    Raises:
        ConfigurationError: `PALLAS_GATEWAY_STORE` names no store, or `PALLAS_GATEWAY_CLIENT_SECRET` is none.
    """
    deployment = configuration.deployment
    environment = worker_environment(environ, {})
    environment[OWNER_VARIABLE] = f"{GATEWAY_NAME}/{generation}"
    environment[DIRECTORY_VARIABLE] = str(control_socket.parent)
    environment[KEEPS_ENVIRONMENT] = "1"
    named = urlsplit(settings.public_url).hostname
    hosts = (*deployment.hosts, *((named,) if named else ()))
    if settings.oidc is not None and (secret := client_secret(environ)) is not None:
        settings = replace(settings, oidc=replace(settings.oidc, client_secret=secret))
    return GatewaySpec(
        settings=settings,
        deployment=deployment.name,
        version=__version__,
        generation=generation,
        title=deployment.namespace,
        control_socket=str(control_socket),
        state_directory=str(state_directory),
        store=store_of(gateway_store(environ) or settings.store, state_directory),
        allowed_hosts=served_hosts(deployment.host, hosts, settings.bind),
        metrics_directory=metrics[0],
        metrics_slot=metrics[1],
        log_level=configuration.levels.pallas,
        root_log_level=configuration.levels.root,
        listener_outlives=listener_outlives,
        waits_for_store=waits_for_store,
        memory_limit=settings.memory_limit,
        environment=environment,
    )


def store_of(store: str | None, state_directory: Path) -> str:
    """The store as the gateway opens it; paths of files are absolute."""
    if store is None:
        return f"sqlite:{state_directory / STORE_FILE}"
    kind, _, rest = store.partition(":")
    return f"sqlite:{state_directory / rest}" if kind == "sqlite" and not rest.startswith("//") else store
