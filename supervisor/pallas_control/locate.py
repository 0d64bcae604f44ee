"""Where the control socket is: named, by the rule that the supervisor follows, or the only one that lives.

Knows the places, and of what is said over the socket only the name of the deployment behind it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_control.client import Control, not_running
from pallas_control.errors import ControlError, ForbiddenError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_VARIABLE = "PALLAS_CONTROL_SOCKET"
SYSTEM_SOCKET = Path("/run/pallas/control.sock")
"""Where the systemd unit has it; one that `pallas install-service` has written, in a folder beside it."""

_DIRECTORY_VARIABLES = ("PALLAS_RUNTIME_DIR", "RUNTIME_DIRECTORY")
_PROBE_TIMEOUT = 2.0


def control_socket_path(named: str | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The socket to talk to. It need not live if it was named, or follows from the environment.

    A deployment's own socket is preferred to others, and where `agents.yaml` is in the working directory no
    other deployment's supervisor is taken for its own.

    Raises:
        UnreachableError: no place follows, and not exactly one supervisor lives in the usual ones.
    """
    if explicit := named or environ.get(SOCKET_VARIABLE):
        return Path(explicit)
    environ = _with_dotenv(environ)
    if any(environ.get(name) for name in _DIRECTORY_VARIABLES):
        return _by_rule("", environ)
    deployment = _deployment_here(environ)
    own = _by_rule(deployment, environ) if deployment is not None else None
    if own is not None and own.exists():
        return own
    living, forbidden = _look_around(environ, deployment)
    if len(living) == 1:
        return living[0]
    if living:
        message = "more than one supervisor runs here; name one with --socket"
        raise UnreachableError(message, details=[str(path) for path in living])
    if forbidden is not None:
        raise forbidden
    if own is not None:
        raise UnreachableError(not_running(own))
    raise UnreachableError(
        "no running pallas found: no agents.yaml in this directory, and no live socket in the usual places; "
        f"start one with `pallas`, or name its socket with --socket or {SOCKET_VARIABLE}"
    )


def living_sockets(deployment: str, environ: Mapping[str, str]) -> list[Path]:
    """The sockets on which a supervisor of this deployment answers: at its place by the rule, or in the usual ones.

    Args:
        environ: with what `.env` adds.
    """
    try:
        own = _by_rule(deployment, environ)
        if Control(own).get("/v1/status", timeout=_PROBE_TIMEOUT).get("deployment") == deployment:
            return [own]
    except ControlError:
        pass
    return _look_around(environ, deployment)[0]


def system_sockets() -> list[Path]:
    """The places of services' sockets; one of them need not live."""
    return [SYSTEM_SOCKET, *sorted(SYSTEM_SOCKET.parent.glob(f"*/{SYSTEM_SOCKET.name}"))]


def _with_dotenv(environ: Mapping[str, str]) -> Mapping[str, str]:
    """What the supervisor finds in its environment when it is started here."""
    from pallas_common.problems import ConfigurationError
    from pallas_registry.deployment.location import working_directory
    from pallas_registry.environment.dotenv import load_dotenv

    try:
        here = working_directory()
    except ConfigurationError as error:
        raise ControlError(str(error)) from None
    try:
        return {**load_dotenv(here, environ), **environ}
    except ConfigurationError:
        return environ


def _deployment_here(environ: Mapping[str, str]) -> str | None:
    """The deployment's name in the `agents.yaml` of this directory, even if the rest of it is wrong."""
    from pallas_registry.deployment.location import deployment_name, deployment_path

    return deployment_name(deployment_path(environ))


def _by_rule(deployment: str, environ: Mapping[str, str]) -> Path:
    from pallas_common.problems import ConfigurationError
    from pallas_registry.environment.runtime_directory import control_socket

    try:
        return control_socket(deployment, environ)
    except ConfigurationError as error:
        raise ControlError(str(error)) from None


def _look_around(
    environ: Mapping[str, str], deployment: str | None
) -> tuple[list[Path], ForbiddenError | None]:
    """The sockets in the usual places on which that deployment's supervisor answers, or any if it is None.

    And the failure of a place that this user may not look into.
    """
    from pallas_registry.environment.runtime_directory import SOCKET_NAME, is_own, runtime_directory

    of_this_user = runtime_directory("any", environ).parent
    own = sorted(of_this_user.glob(f"*/{SOCKET_NAME}")) if is_own(of_this_user) else []
    living, forbidden = [], None
    for path in [*own, *system_sockets()]:
        try:
            status = Control(path).get("/v1/status", timeout=_PROBE_TIMEOUT)
        except ForbiddenError as failure:
            forbidden = failure
        except ControlError:
            continue
        else:
            if deployment in (None, status.get("deployment")):
                living.append(path)
    return living, forbidden
