"""Where the control socket is: named, by the rule that the supervisor follows, or the only one that lives.

Knows the places, not what is said over the socket but for the name of the deployment behind it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pallasctl.connection import Control, not_running
from pallasctl.failures import Failure, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VARIABLE = "PALLAS_CONTROL_SOCKET"
SYSTEM_SOCKET = Path("/run/pallas/control.sock")
"""Where the systemd unit has it."""


def control_socket_path(named: str | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The socket to talk to; it need not live if it was named or follows from `agents.yaml`.

    Raises:
        Unreachable: no place follows, and not exactly one supervisor lives in the usual ones.
    """
    if explicit := named or environ.get(VARIABLE):
        return Path(explicit)
    deployment = _deployment_here(environ)
    by_rule = _by_rule(deployment, environ)
    if by_rule is not None and by_rule.exists():
        return by_rule
    living = [
        path for path, name in _living(_usual_places(environ)) if deployment is None or name == deployment
    ]
    if len(living) == 1:
        return living[0]
    if living:
        raise Unreachable(
            "more than one supervisor runs here: name one with --socket",
            details=[str(path) for path in living],
        )
    if by_rule is not None:
        raise Unreachable(not_running(by_rule))
    raise Unreachable(
        "no running pallas found: no agents.yaml in this directory, and no live socket in the usual places; "
        f"start one with `pallas`, or name its socket with --socket or {VARIABLE}"
    )


def _deployment_here(environ: Mapping[str, str]) -> str | None:
    """The deployment's name in the `agents.yaml` of this directory, even if the rest of it is wrong."""
    import yaml
    from pallas_registry.agents_file import deployment_path

    try:
        document = yaml.safe_load(deployment_path(environ).read_bytes())
    except (OSError, ValueError, yaml.YAMLError):
        return None
    name = document.get("name") if isinstance(document, dict) else None
    return name if isinstance(name, str) else None


def _by_rule(deployment: str | None, environ: Mapping[str, str]) -> Path | None:
    from pallas_registry.runtime_directory import control_socket

    if deployment is None:
        return None
    try:
        return control_socket(deployment, environ)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from None


def _usual_places(environ: Mapping[str, str]) -> Iterable[Path]:
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield from sorted(Path(runtime, "pallas").glob("*/control.sock"))
    yield SYSTEM_SOCKET


def _living(paths: Iterable[Path]) -> Iterable[tuple[Path, str]]:
    for path in paths:
        try:
            yield path, Control(path).get("/v1/status", timeout=2.0)["deployment"]
        except (Failure, KeyError):
            continue
