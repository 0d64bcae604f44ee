"""`PALLAS_*` variables that say where something goes: read by one rule each, and checked together.

Levels and the interval of probes have readers of their own: `logs.levels`, `protocol.probe_interval`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError, Problem, collect, quoted
from pallas_registry.environment.runtime_directory import control_socket
from pallas_registry.environment.state_directory import state_directory
from pallas_registry.reading.rules import CLIENT_SECRET_VARIABLE, STORE_VARIABLE, client_text, store

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG_FILE_VARIABLE = "PALLAS_LOG_FILE"
LOG_STDERR_VARIABLE = "PALLAS_LOG_STDERR"
CGROUP_VARIABLE = "PALLAS_CGROUP"

DEFAULT_LOG_FILE = "~/.local/state/pallas/pallas.log"


def check_variables(environ: Mapping[str, str], deployment: str) -> None:
    """See that all of them can be read.

    Raises:
        ConfigurationError: some cannot; all problems.
    """
    problems: list[Problem] = []
    for read in (log_file, logs_to_stderr, control_group, gateway_store, client_secret):
        collect(lambda read=read: read(environ), problems)  # type: ignore[misc]  # mypy infers no type of a default
    collect(lambda: control_socket(deployment, environ), problems)
    collect(lambda: state_directory(deployment, environ), problems)
    if problems:
        raise ConfigurationError(problems)


def log_file(environ: Mapping[str, str]) -> Path:
    """`PALLAS_LOG_FILE`, or `~/.local/state/pallas/pallas.log`.

    Raises:
        ConfigurationError: there is no such home.
    """
    given = environ.get(LOG_FILE_VARIABLE)
    try:
        return Path(given or DEFAULT_LOG_FILE).expanduser()
    except RuntimeError:
        home = (given or DEFAULT_LOG_FILE).partition("/")[0]
        message = f"there is no home directory {home} for the log file"
        raise _refused(LOG_FILE_VARIABLE, message, "set it to the path of a file") from None


def logs_to_stderr(environ: Mapping[str, str]) -> bool:
    """Whether `PALLAS_LOG_STDERR` wants log records on stderr.

    Raises:
        ConfigurationError: it is neither `1`, `0` nor empty.
    """
    given = environ.get(LOG_STDERR_VARIABLE, "")
    if given not in ("", "0", "1"):
        raise _refused(LOG_STDERR_VARIABLE, f"{quoted(given)} is neither 0 nor 1", "set it to 1, or unset it")
    return given == "1"


def control_group(environ: Mapping[str, str]) -> Path | None:
    """The control group that `PALLAS_CGROUP` names, if it does.

    Raises:
        ConfigurationError: it is no absolute path.
    """
    given = environ.get(CGROUP_VARIABLE)
    if given and not given.startswith("/"):
        remedy = "name the group by its absolute path, as in /sys/fs/cgroup/pallas"
        raise _refused(CGROUP_VARIABLE, f"{quoted(given, 200)} is no absolute path", remedy)
    return Path(given) if given else None


def gateway_store(environ: Mapping[str, str]) -> str | None:
    """What `PALLAS_GATEWAY_STORE` says in place of `gateway.store`, if it does.

    Raises:
        ConfigurationError: it names no store; no message has the value.
    """
    given = environ.get(STORE_VARIABLE)
    if given and (complaint := store(given)):
        raise _refused(STORE_VARIABLE, *complaint)
    return given or None


def client_secret(environ: Mapping[str, str]) -> str | None:
    """What `PALLAS_GATEWAY_CLIENT_SECRET` says in place of `gateway.oidc.client_secret`, if it does.

    Raises:
        ConfigurationError: it is none; no message has the value.
    """
    given = environ.get(CLIENT_SECRET_VARIABLE)
    if given and (complaint := client_text(given)):
        raise _refused(CLIENT_SECRET_VARIABLE, *complaint)
    return given or None


def _refused(variable: str, message: str, remedy: str) -> ConfigurationError:
    return ConfigurationError([Problem("environment", None, variable, message, remedy)])
