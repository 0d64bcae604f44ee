"""What of this machine is in the way of a start: ports that are taken, a deployment that runs already.

Ports are taken as a start takes them, and given back at once. A PostgreSQL that the gateway needs is connected to, and
nothing is said to it.
"""

from __future__ import annotations

import re
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pallas_check.findings import Finding
from pallas_common.problems import ConfigurationError, Problem
from pallas_common.protocol.gateway import GATEWAY
from pallas_control.client import Control
from pallas_control.errors import ControlError
from pallas_control.locate import is_same_file, living_sockets
from pallas_registry.environment.variables import gateway_store
from pallas_registry.reading.rules import STORE_VARIABLE
from pallas_supervisor.agents.gateway.listening import listening_problem
from pallas_supervisor.sockets.listeners import (
    NoSuchAddressError,
    PortsTakenError,
    close_listeners,
    open_listeners,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pallas_check.places import Places
    from pallas_registry.deployment.model import Deployment

REGISTRY = "registry"
TIMEOUT = 2.0
"""Seconds that a running supervisor may take to answer."""
STORE_TIMEOUT = 3.0
"""Seconds that PostgreSQL may take to accept a connection."""
POSTGRESQL_PORT = 5432


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
    for purpose, port in ports.items():
        bind = deployment.bind if purpose == REGISTRY else deployment.agents_bind
        if port in held or (error := _taken(bind, purpose, port)) is None:
            continue
        message, _, remedy = str(error).rpartition("; ")
        said = (message or remedy, remedy if message else "")
        if isinstance(error, NoSuchAddressError):  # and none of the others can be looked at
            findings.append(Finding(problem=places.of_deployment("bind", *said), cause="machine"))
            break
        if purpose == REGISTRY:
            problem = places.of_deployment("registry_port", *said)
            findings.append(Finding(problem=problem, cause="machine"))
        else:
            problem = places.of_agent(purpose, ("port",), *said)
            findings.append(Finding(problem=problem, cause="machine", agent=purpose))
    running = status.get("gateway") if own and status is not None else None
    findings.extend(_of_gateway(deployment, running, held, places))
    findings.extend(_of_store(deployment, environ, places))
    return findings, own


def _of_gateway(
    deployment: Deployment, running: object, held: Collection[int], places: Places
) -> Iterator[Finding]:
    """What is in the way of the gateway.

    Args:
        running: its entry in the status of this very deployment, while that runs.
        held: ports that this very deployment has.
    """
    if (gateway := deployment.gateway) is None:
        return
    port, bind = gateway.port, gateway.bind
    if port in held:
        if not isinstance(running, dict) or running.get("bind", bind) == bind:
            return
        port = 0  # the gateway has that one itself: only the address is looked at
    if (error := _taken(bind, GATEWAY, port)) is not None:
        problem = listening_problem(deployment, error, places.file)
        yield Finding(problem=problem, cause="machine")


def _of_store(deployment: Deployment, environ: Mapping[str, str], places: Places) -> Iterator[Finding]:
    """A PostgreSQL that the gateway is to use and that takes no connection; one by a unix socket is not looked at."""
    if deployment.gateway is None:
        return
    try:
        by_environment = gateway_store(environ)
    except ConfigurationError as error:
        yield from (Finding(problem=problem) for problem in error.problems)
        return
    parts = urlsplit(by_environment or deployment.gateway.store or "")
    host, port = parts.hostname, parts.port or POSTGRESQL_PORT
    # Several hosts, or one in the query, are libpq's to understand.
    if parts.scheme != "postgresql" or not host or re.search(r"[,%/]", host) or "host" in parts.query:
        return
    if (why := _unreachable(host, port)) is None:
        return
    named = f"[{host}]" if ":" in host else host
    message = f"PostgreSQL at {named}:{port} cannot be reached: {why}"
    remedy = "see whether it runs and the address is right: until then the gateway can look up no token"
    if by_environment:
        problem = Problem("environment", None, STORE_VARIABLE, message, remedy)
    else:
        place = deployment.places.get("gateway.store")
        problem = Problem(
            places.file, None if place is None else place.line, "gateway.store", message, remedy
        )
    yield Finding(problem=problem, cause="machine", level="warning")


def _unreachable(host: str, port: int) -> str | None:
    """Why nothing takes a connection there, within `STORE_TIMEOUT`; None if something does."""
    outcome: list[str | None] = []

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=STORE_TIMEOUT).close()
        except (OSError, UnicodeError) as error:
            outcome.append(str(getattr(error, "strerror", None) or error))
        else:
            outcome.append(None)

    # A name is looked up for as long as the resolver likes: nobody waits for that thread.
    trying = threading.Thread(target=connect, daemon=True)
    trying.start()
    trying.join(STORE_TIMEOUT)
    return outcome[0] if outcome else f"no answer within {STORE_TIMEOUT:g} s"


def _agent_ports(deployment: Deployment) -> dict[str, int]:
    return {name: agent.port for name, agent in deployment.agents.items() if agent.port is not None}


def _taken(bind: str, purpose: str, port: int) -> PortsTakenError | None:
    """Why the port cannot be listened on, in the words of a start; None if it can."""
    try:
        close_listeners(open_listeners(bind, {purpose: port}, patience=0).values())
    except PortsTakenError as error:
        return error
    return None


def _status(deployment: Deployment, environ: Mapping[str, str]) -> Mapping[str, Any] | None:
    """What a supervisor says that runs a deployment of this name."""
    for path in living_sockets(deployment.name, environ):
        try:
            status: Mapping[str, Any] = Control(path).get("/v1/status", timeout=TIMEOUT)
        except ControlError:  # it has just gone
            continue
        return status
    return None


def _is_same(status: Mapping[str, Any], deployment: Deployment, directory: Path) -> bool:
    """Whether it runs from the same file; one of an older version does not say."""
    file, where = status.get("file"), status.get("directory")
    if not isinstance(file, str) or not isinstance(where, str):
        return True
    return is_same_file(Path(file), deployment.path) and is_same_file(Path(where), directory)


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
