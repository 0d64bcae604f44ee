"""Where a deployment keeps what outlives its processes, by one rule: the resources that were applied.

Knows paths, owners and modes; nothing of what is kept there.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError, Problem
from pallas_registry.environment.runtime_directory import ensure_private as ensure_private_directory
from pallas_registry.environment.runtime_directory import path_name

if TYPE_CHECKING:
    from collections.abc import Mapping

DIRECTORY_VARIABLE = "PALLAS_STATE_DIR"


def state_directory(deployment_name: str, environ: Mapping[str, str]) -> Path | None:
    """The absolute path of the deployment's state directory; nothing is created.

    `$PALLAS_STATE_DIR`, else the first of `$STATE_DIRECTORY` (systemd.exec(5)), else `$XDG_STATE_HOME/pallas/<name>`
    with `~/.local/state` for an unset or relative XDG_STATE_HOME. An empty variable counts as unset. None where none of
    them is set and the user has no home: such a deployment can do without, until somebody applies something.

    Raises:
        ConfigurationError: a home that `$PALLAS_STATE_DIR` names is not there.
    """
    if directory := environ.get(DIRECTORY_VARIABLE):
        try:
            return Path(directory).expanduser().absolute()
        except RuntimeError:
            message = f"there is no home directory {directory.partition('/')[0]} for the state directory"
            remedy = "set it to a directory of your own"
            problem = Problem("environment", None, DIRECTORY_VARIABLE, message, remedy)
            raise ConfigurationError([problem]) from None
    if directory := environ.get("STATE_DIRECTORY", "").split(":")[0]:
        # The service manager's own link, where a unit has DynamicUser=, is not one that somebody has put there.
        return Path(os.path.realpath(directory))
    base = environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        home = environ.get("HOME") or _home()
        if home is None:
            return None
        base = f"{home}/.local/state"
    return Path(base, "pallas", path_name(deployment_name)).absolute()


def ensure_private(directory: Path) -> None:
    """Create the state directory with mode 0700, and its missing parents, or make sure that it can be trusted.

    Raises:
        ConfigurationError: it cannot be created, or is not to be trusted.
    """
    ensure_private_directory(directory, DIRECTORY_VARIABLE, "state directory")


def _home() -> str | None:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
