"""Environments: what `.env` adds to the supervisor's, and what a worker is given.

Reads `.env` and no other file. Never touches `os.environ`: callers pass environments in and apply what comes
out.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from dotenv import dotenv_values

from pallas_registry.problems import ConfigurationError, Problem
from pallas_registry.rules import belongs_to_supervisor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def load_dotenv(directory: Path, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables of `.env` in `directory` that `environ` does not hold yet; none without such a file.

    Values are taken literally: `${NAME}` stays as it is, so that a password with a dollar sign survives, and
    a name without `=` is passed over. A line that cannot be understood is skipped with a warning of the
    logger `dotenv.main`, which names the line.

    Raises:
        ConfigurationError: the file cannot be read, is not UTF-8, or holds a NUL character.
    """
    path = directory / ".env"

    def refuse(line: int | None, message: str, remedy: str) -> ConfigurationError:
        return ConfigurationError([Problem(str(path), line, "", message, remedy)])

    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return {}
    except PermissionError:
        raise refuse(None, "may not be read by this user", "grant read permission, or remove it") from None
    except OSError as error:
        raise refuse(None, f"cannot be read: {error.strerror}", "mend or remove it") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refuse(line, "is not UTF-8", "save the file as UTF-8") from None
    if (position := text.find("\0")) >= 0:
        line = text.count("\n", 0, position) + 1
        raise refuse(line, "holds a NUL character", "remove it: no environment can carry it")
    values = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return {
        name: value for name, value in values.items() if name and value is not None and name not in environ
    }


def worker_environment(environ: Mapping[str, str], agent_env: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a worker: `environ` with the agent's own variables over it.

    NOTIFY_SOCKET, WATCHDOG_* and LISTEN_* are left out, wherever they come from: a worker that found them
    would speak to the service manager in the supervisor's name (sd_notify(3), sd_listen_fds(3)).
    """
    merged = {**environ, **agent_env}
    return {name: value for name, value in merged.items() if not belongs_to_supervisor(name)}
