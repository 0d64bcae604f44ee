"""Where a supervisor's configuration is, and how what it says becomes the environment of this process."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pallas_common.logs.own_loggers import own_logger
from pallas_common.terminal_text import terminal_line
from pallas_registry.environment.dotenv import DOTENV
from pallas_registry.fastagent_files.paths import HOME_VARIABLE, settings_files
from pallas_registry.resources.files import ResourceFiles
from pallas_registry.source import read_configuration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pallas_registry.source import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the configuration is."""

    path: Path
    """Of `agents.yaml`."""
    directory: Path
    """The agents' working directory, with `.env` and fast-agent's settings."""
    only: str | None = None
    """The one agent that is run, without registry and dependencies; None for all."""
    resources: ResourceFiles = field(default_factory=ResourceFiles)
    """Those that are kept."""

    def read(self, environ: Mapping[str, str]) -> Configuration:
        """The configuration as it is now.

        Args:
            environ: the environment without what `.env` has added.

        Raises:
            ConfigurationError: it cannot be used; all problems of all files and variables.
        """
        return read_configuration(self.directory, environ, self.path, self.only, self.resources)

    def own_files(self, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """What the supervisor itself reads."""
        settings = settings_files(self.directory, environ.get(HOME_VARIABLE))
        return (self.path, self.directory / DOTENV, *settings)

    def worker_files(self, home: str | None) -> tuple[Path, ...]:
        """What fast-agent looks for in a worker with this `FAST_AGENT_HOME`, whether it is there or not."""
        return (self.directory / DOTENV, *settings_files(self.directory, home))

    def label(self, path: Path) -> str:
        """What people call the file: its path in the working directory, or else all of it; escaped."""
        if path == self.path:
            return terminal_line(path.name)  # which need not be text
        within = path.is_relative_to(self.directory)
        return terminal_line(str(path.relative_to(self.directory) if within else path))


def without(environ: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """The environment before something was added to it."""
    return {name: value for name, value in environ.items() if name not in added}


def take_over(old: Configuration, new: Configuration) -> None:
    """Give this process the variables of the new `.env` instead of those that the old one added, and its log levels."""
    for name in old.dotenv.keys() - new.dotenv.keys():
        os.environ.pop(name, None)
    os.environ.update(new.dotenv)
    if new.levels != old.levels:  # a worker's follow with its next start
        logging.getLogger().setLevel(new.levels.root)
        own_logger().setLevel(new.levels.pallas)
