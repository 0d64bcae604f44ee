"""Where the gateway listens, and what to say where it cannot: with the line of `agents.yaml` that asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.problems import Problem
from pallas_common.protocol.gateway import GATEWAY
from pallas_supervisor.sockets.listeners import (
    ORPHAN_PATIENCE,
    NoSuchAddressError,
    PortsTakenError,
    open_listeners,
)

if TYPE_CHECKING:
    import socket

    from pallas_registry.deployment.model import Deployment
    from pallas_supervisor.sockets.listeners import Inherited


def listen(
    deployment: Deployment, inherited: Inherited, *, patience: float = ORPHAN_PATIENCE
) -> socket.socket:
    """Listen on the gateway's port, by a socket that the service manager keeps where there is one.

    Raises:
        PortsTakenError: the port cannot be listened on.
    """
    settings = deployment.gateway
    assert settings is not None, "there is no gateway"
    try:
        opened = open_listeners(
            settings.bind, {GATEWAY: settings.port}, patience=patience, inherited=inherited
        )
    except PortsTakenError as error:
        raise PortsTakenError(str(listening_problem(deployment, error, deployment.path.name))) from error
    return opened[GATEWAY]


def listening_problem(deployment: Deployment, error: PortsTakenError, file: str) -> Problem:
    """Why the gateway cannot listen, as a problem of the field that says where.

    Args:
        error: what `open_listeners` raised for its port alone.
        file: what people call `agents.yaml`.
    """
    message, _, remedy = str(error).rpartition("; ")
    if isinstance(error, NoSuchAddressError):  # which a `bind` says: what is there by default is always there
        places = ("gateway.bind", "bind")
    else:
        places = ("gateway.port", "gateway")
        remedy = "free it, or write another one: `gateway: {port: …}`"
    field = next((place for place in places if place in deployment.places), places[-1])
    place = deployment.places.get(field)
    return Problem(file, None if place is None else place.line, field, message or str(error), remedy)
