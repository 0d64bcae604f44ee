"""What of this machine is in the way of a start: ports that are taken, a deployment that runs already.

Ports are taken as a start takes them, and given back at once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pallas_check.findings import Finding
from pallas_common.protocol.gateway import GATEWAY_NAME
from pallas_control.client import Control
from pallas_control.errors import ControlError
from pallas_control.locate import living_sockets
from pallas_supervisor.sockets.listeners import PortsTakenError, close_listeners, open_listeners

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pallas_check.places import Places
    from pallas_common.problems import Problem
    from pallas_registry.deployment.model import Deployment

REGISTRY = "registry"
TIMEOUT = 2.0
"""Seconds that a running supervisor may take to answer."""


def machine_findings(
    deployment: Deployment, directory: Path, environ: Mapping[str, str], places: Places
) -> tuple[list[Finding], bool]:
    """What is in the way, and whether this very deployment is running.

    Args:
        directory: the agents' working directory.
        environ: with what `.env` adds.
    """
    findings: list[Finding] = []
    status = _status(deployment, environ)
    own = False
    if status is not None:
        own = _is_same(status, deployment, directory)
        if not own:
            findings.append(Finding(problem=_namesake(deployment, status, places), cause="machine"))
    held = set(_ports(status)) if own and status is not None else set[int]()
    ports = {REGISTRY: deployment.registry_port, **_agent_ports(deployment)}
    binds = {REGISTRY: deployment.bind}
    if (gateway := deployment.gateway) is not None:
        ports[GATEWAY_NAME], binds[GATEWAY_NAME] = gateway.port, gateway.bind
    for purpose, port in ports.items():
        bind = binds.get(purpose, deployment.agents_bind)
        if port in held or (message := _taken(bind, purpose.removeprefix("@"), port)) is None:
            continue
        what, _, remedy = message.rpartition("; ")
        if purpose in binds:
            key = "registry_port" if purpose == REGISTRY else "gateway"
            problem = places.of_deployment(key, what or remedy, remedy if what else "")
            findings.append(Finding(problem=problem, cause="machine"))
        else:
            problem = places.of_agent(purpose, ("port",), what or remedy, remedy if what else "")
            findings.append(Finding(problem=problem, cause="machine", agent=purpose))
    return findings, own


def _agent_ports(deployment: Deployment) -> dict[str, int]:
    return {name: agent.port for name, agent in deployment.agents.items() if agent.port is not None}


def _taken(bind: str, purpose: str, port: int) -> str | None:
    """Why the port cannot be listened on, in the words of a start; None if it can."""
    try:
        close_listeners(open_listeners(bind, {purpose: port}, patience=0).values())
    except PortsTakenError as error:
        return str(error)
    return None


def _status(deployment: Deployment, environ: Mapping[str, str]) -> Mapping[str, Any] | None:
    """What a supervisor says that runs a deployment of this name."""
    for socket in living_sockets(deployment.name, environ):
        try:
            status: Mapping[str, Any] = Control(socket).get("/v1/status", timeout=TIMEOUT)
        except ControlError:  # it has just gone
            continue
        return status
    return None


def _is_same(status: Mapping[str, Any], deployment: Deployment, directory: Path) -> bool:
    """Whether it runs from the same file; one of an older version does not say."""
    file, where = status.get("file"), status.get("directory")
    if not isinstance(file, str) or not isinstance(where, str):
        return True
    return os.path.realpath(file) == os.path.realpath(deployment.path) and os.path.realpath(
        where
    ) == os.path.realpath(directory)


def _namesake(deployment: Deployment, status: Mapping[str, Any], places: Places) -> Problem:
    supervisor = status.get("supervisor")
    pid = supervisor.get("pid") if isinstance(supervisor, dict) else None
    return places.of_deployment(
        "name",
        f"{deployment.name} is running already, as process {pid}, from {status.get('file')} in "
        f"{status.get('directory')}",
        "give one of the two another name, or set PALLAS_RUNTIME_DIR",
    )


def _ports(status: Mapping[str, Any]) -> Iterator[int]:
    """The ports that the running supervisor holds."""
    agents = status.get("agents")
    for agent in agents if isinstance(agents, list) else ():
        if isinstance(agent, dict) and isinstance(port := agent.get("port"), int):
            yield port
    gateway = status.get("gateway")
    if isinstance(gateway, dict) and isinstance(port := gateway.get("port"), int):
        yield port
    if isinstance(url := status.get("url"), str) and (port := urlsplit(url).port) is not None:
        yield port
