"""Where `agents.yaml` is, and what it calls its deployment: all that a command line needs to find the supervisor.

Knows one key of the file. It imports little, as a command line waits for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError, Problem
from pallas_common.processes.directories import entered_directory
from pallas_registry.reading.fields import Fields
from pallas_registry.reading.files import read_file
from pallas_registry.reading.nodes import compose

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_FILE = "agents.yaml"
PATH_VARIABLE = "PALLAS_AGENTS_CONFIG"


def deployment_path(environ: Mapping[str, str]) -> Path:
    """The path in `PALLAS_AGENTS_CONFIG`, else `agents.yaml` in the working directory."""
    return Path(environ.get(PATH_VARIABLE) or DEFAULT_FILE)


def working_directory() -> Path:
    """Where this process was started, by the name that it was given: a link in it is looked up anew each time.

    Raises:
        ConfigurationError: the folder has been removed since.
    """
    try:
        return entered_directory()
    except OSError:
        message = "the working directory no longer exists"
        raise ConfigurationError(
            [Problem("", None, "", message, f"cd to the folder that holds {DEFAULT_FILE}")]
        ) from None


def absolute(path: Path) -> Path:
    """Return the path from the root, by the name of the working directory that `working_directory` says."""
    return path if path.is_absolute() else working_directory() / path


def deployment_name(path: Path) -> str | None:
    """The deployment's name in the file at `path`, even if the rest of it is wrong; None if there is none."""
    try:
        root = compose(read_bytes(path), str(path))
    except ConfigurationError:
        return None
    if root is None:
        return None
    fields = Fields(root, file=str(path), field="", line=1, problems=[])
    return fields.text("name")


def read_bytes(path: Path) -> bytes:
    """The content of the file.

    Raises:
        ConfigurationError: there is none, or it cannot be read.
    """
    here = f"run it in the folder that holds {DEFAULT_FILE}, or set {PATH_VARIABLE} to the file's path"
    data = read_file(path, here)
    if data is None:
        remedy = f"`pallas init` writes one for the project in a folder; else {here}"
        raise ConfigurationError([Problem(str(path), None, "", "there is no such file", remedy)])
    return data
