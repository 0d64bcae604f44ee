"""Where the control socket is: named, by the rule that the supervisor follows, or the only one that lives.

Knows the places, and of what is said over the socket the name of the deployment behind it and its `agents.yaml`. A
`name:` is no proof: the copy of a folder has it, too. So who is led to a supervisor by an `agents.yaml` is led to no
supervisor that runs another one.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_control.client import Control, not_running
from pallas_control.errors import ControlError, ForbiddenError, NamesakeError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    type Living = Mapping[Path, Path | None]
    """The sockets on which a supervisor answers, and the `agents.yaml` that it runs, where it says so."""

SOCKET_VARIABLE = "PALLAS_CONTROL_SOCKET"
SYSTEM_SOCKET = Path("/run/pallas/control.sock")
"""Where the systemd unit has it; one that `pallas install-service` has written, in a folder beside it."""

_DIRECTORY_VARIABLES = ("PALLAS_RUNTIME_DIR", "RUNTIME_DIRECTORY")
_PROBE_TIMEOUT = 2.0


def control_socket_path(
    named: str | None, environ: Mapping[str, str] = os.environ, *, deployment: str | None = None
) -> Path:
    """The socket to talk to. It need not live if it was named, or follows from the environment.

    A deployment's own socket is preferred to others, and where `agents.yaml` is in the working directory no
    other deployment's supervisor is taken for its own, neither by another name nor by the same.

    Args:
        named: the path of the socket.
        deployment: the name of the deployment, from wherever it runs.

    Raises:
        NamesakeError: the `agents.yaml` here leads to a supervisor that runs another one.
        UnreachableError: no place follows, and not exactly one supervisor lives in the usual ones.
    """
    if explicit := named or (environ.get(SOCKET_VARIABLE) if deployment is None else None):
        return Path(explicit)
    environ = _with_dotenv(environ)
    if deployment is not None:
        if (found := named_socket(deployment, environ)) is not None:
            return found
        message = f"no deployment called {deployment} runs here: no supervisor in the usual places has it"
        raise UnreachableError(message)
    from pallas_registry.deployment.location import deployment_name, deployment_path

    file = deployment_path(environ)
    name = deployment_name(file)
    if name is not None:
        if (found := socket_of(file, name, environ)) is not None:
            return found
        raise UnreachableError(not_running(_by_rule(name, environ)))
    if _is_directory_named(environ):
        return _by_rule("", environ)
    living, forbidden = _look_around(environ, None)
    if len(living) == 1:
        return next(iter(living))
    if living:
        message = "more than one supervisor runs here; name one with --socket or --deployment"
        raise UnreachableError(message, details=[str(path) for path in living])
    if forbidden is not None:
        raise forbidden
    raise UnreachableError(
        "no running pallas found: no agents.yaml in this directory, and no live socket in the usual places; "
        f"start one with `pallas`, or name its socket with --socket or {SOCKET_VARIABLE}"
    )


def socket_of(file: Path, name: str, environ: Mapping[str, str]) -> Path | None:
    """The socket of the deployment of an `agents.yaml`; None if there is none at its place, and none lives elsewhere.

    Args:
        name: what the file calls it.
        environ: with what `.env` adds.

    Raises:
        NamesakeError: supervisors run a deployment of that name, and none of them this file.
        ForbiddenError: there is one at a place that this user may not look into.
    """
    own = _by_rule(name, environ)
    is_there = own.exists()
    theirs = running_file(own) if is_there else None
    if is_there and (theirs is None or is_same_file(theirs, file)):
        return own
    if _is_directory_named(environ):
        if theirs is not None:
            raise NamesakeError(name, theirs, file)
        return own
    living, forbidden = _look_around(environ, name)
    for path, running in living.items():
        if running is None or is_same_file(running, file):
            return path
    if (other := next(iter(living.values()), theirs)) is not None:
        raise NamesakeError(name, other, file)
    if forbidden is not None:
        raise forbidden
    return None


def named_socket(deployment: str, environ: Mapping[str, str]) -> Path | None:
    """The socket of the only supervisor that runs a deployment of this name, whatever its folder; None if none does.

    Args:
        environ: with what `.env` adds.

    Raises:
        UnreachableError: there is more than one.
        ForbiddenError: there is one at a place that this user may not look into.
    """
    own = _by_rule(deployment, environ)
    at_own = _status(own)
    living, forbidden = _look_around(environ, deployment)
    if at_own is not None and at_own.get("deployment") == deployment:
        living = {own: _file(at_own), **living}
    if len(living) > 1:
        message = f"more than one deployment called {deployment} runs here; name its socket with --socket"
        raise UnreachableError(
            message, details=[f"{path}: {file}" if file else str(path) for path, file in living.items()]
        )
    if living:
        return next(iter(living))
    if forbidden is not None:
        raise forbidden
    # It hangs, or was left behind: what is asked of it says which.
    return own if at_own is None and not _is_directory_named(environ) and own.exists() else None


def running_file(path: Path) -> Path | None:
    """The `agents.yaml` of the supervisor that has this socket; None where that cannot be told."""
    from pallas_registry.environment.runtime_directory import read_holder

    if not _is_listened_on(path):
        return None
    # One that hangs, or is overloaded, has left it there; who may use the socket need not be able to read that.
    holder = read_holder(path.parent)
    if holder is not None and holder.file is not None:
        return holder.file
    status = _status(path)
    return None if status is None else _file(status)


def is_same_file(one: Path, other: Path) -> bool:
    """Whether both are one file, by whatever links; of one that is gone whether it was at the same place."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)


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
    return list(_look_around(environ, deployment)[0])


def _is_directory_named(environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in _DIRECTORY_VARIABLES)


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


def _by_rule(deployment: str, environ: Mapping[str, str]) -> Path:
    from pallas_common.problems import ConfigurationError
    from pallas_registry.environment.runtime_directory import control_socket

    try:
        return control_socket(deployment, environ)
    except ConfigurationError as error:
        raise ControlError(str(error)) from None


def _status(path: Path) -> Mapping[str, object] | None:
    """The status of the supervisor there; None if none answers."""
    try:
        status: Mapping[str, object] = Control(path).get("/v1/status", timeout=_PROBE_TIMEOUT)
    except ControlError:
        return None
    return status


def _is_listened_on(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PROBE_TIMEOUT)
        try:
            connection.connect(str(path))
        except TimeoutError:  # it takes none of those that wait already
            return True
        except OSError:
            return False
    return True


def _file(status: Mapping[str, object]) -> Path | None:
    """One of an older version does not say."""
    file = status.get("file")
    return Path(file) if isinstance(file, str) and file else None


def _look_around(environ: Mapping[str, str], deployment: str | None) -> tuple[Living, ForbiddenError | None]:
    """The sockets in the usual places on which that deployment's supervisor answers, or any if it is None.

    And the failure of a place that this user may not look into.
    """
    living: dict[Path, Path | None] = {}
    forbidden = None
    for path in _usual_sockets(environ):
        try:
            status = Control(path).get("/v1/status", timeout=_PROBE_TIMEOUT)
        except ForbiddenError as failure:
            forbidden = failure
        except ControlError:
            continue
        else:
            if deployment in (None, status.get("deployment")):
                living[path] = _file(status)
    return living, forbidden


def _usual_sockets(environ: Mapping[str, str]) -> Iterator[Path]:
    from pallas_registry.environment.runtime_directory import SOCKET_NAME, is_own, runtime_directory

    of_this_user = runtime_directory("any", environ).parent
    if is_own(of_this_user):
        yield from sorted(of_this_user.glob(f"*/{SOCKET_NAME}"))
    # Of services; the first need not be there.
    yield from (SYSTEM_SOCKET, *sorted(SYSTEM_SOCKET.parent.glob(f"*/{SYSTEM_SOCKET.name}")))
