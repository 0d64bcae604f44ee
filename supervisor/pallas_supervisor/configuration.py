"""All that the files of a deployment say at one moment: `agents.yaml`, `.env`, our keys of `fastagent.config.yaml`.

Reads and checks them together; changes nothing, and knows no process.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pallas_registry.agents_file import read_deployment
from pallas_registry.configured_secrets import FILES
from pallas_registry.environment import load_dotenv
from pallas_registry.log_levels import levels
from pallas_registry.model_settings import FILE_NAME, read_model_settings
from pallas_registry.probe_sharing import probe_interval
from pallas_registry.problems import ConfigurationError, Problem, collect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pallas_registry.deployment import Deployment, ModelSettings
    from pallas_registry.log_levels import Levels

DOTENV = ".env"

HOME_VARIABLE = "FAST_AGENT_HOME"
DEFAULT_HOME = ".fast-agent"
"""Where fast-agent looks before it looks into the working directory, unless the variable names another folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What was read. The variables of `.env` may be secrets: they are in no text of it."""

    deployment: Deployment
    settings: ModelSettings
    levels: Levels
    dotenv: Mapping[str, str] = field(repr=False)
    """What `.env` adds to the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the configuration is."""

    path: Path
    """Of `agents.yaml`."""
    directory: Path
    """The agents' working directory, with `.env` and `fastagent.config.yaml`."""
    only: str | None = None
    """The one agent that is run, without registry and dependencies; None for all."""

    def read(self, environ: Mapping[str, str]) -> Configuration:
        """The configuration as it is now.

        Args:
            environ: the environment without what `.env` has added.

        Raises:
            ConfigurationError: it cannot be used; all problems of all files.
        """
        problems: list[Problem] = []
        dotenv = collect(lambda: load_dotenv(self.directory, environ), problems) or {}
        together = {**environ, **dotenv}
        deployment = collect(lambda: self._narrowed(read_deployment(self.path)), problems)
        settings = collect(lambda: read_model_settings(self.directory, together), problems)
        level = settings.log_level if settings is not None else None
        chosen = collect(lambda: levels(together, level), problems)
        collect(lambda: probe_interval(together), problems)
        if problems or deployment is None or settings is None or chosen is None:
            raise ConfigurationError(problems)
        return Configuration(deployment=deployment, settings=settings, levels=chosen, dotenv=dotenv)

    def _narrowed(self, deployment: Deployment) -> Deployment:
        if self.only is None:
            return deployment
        if self.only not in deployment.agents:
            known = ", ".join(deployment.agents)
            message = f"there is no agent {self.only!r} any more, the one that runs here"
            raise ConfigurationError(
                [Problem(str(self.path), None, "agents", message, f"there are {known}; start another one")]
            )
        return alone(deployment, self.only)

    def own_files(self) -> tuple[Path, ...]:
        """What the supervisor itself reads."""
        return (self.path, self.directory / DOTENV, self.directory / FILE_NAME)

    def worker_files(self, home: str | None) -> tuple[Path, ...]:
        """What fast-agent looks for in a worker with this `FAST_AGENT_HOME`, whether it is there or not."""
        return _worker_files(self.directory, home or DEFAULT_HOME)

    def label(self, path: Path) -> str:
        """What people call the file: its path in the working directory, or else all of it."""
        if path == self.path:
            return path.name
        return str(path.relative_to(self.directory)) if path.is_relative_to(self.directory) else str(path)


@functools.lru_cache(maxsize=64)
def _worker_files(directory: Path, home: str) -> tuple[Path, ...]:
    expanded = os.path.expanduser(home)  # noqa: PTH111 - Path's own raises where there is no such user
    folders = dict.fromkeys((directory / expanded, directory))
    return (directory / DOTENV, *(folder / name for folder in folders for name in FILES))


def alone(deployment: Deployment, name: str) -> Deployment:
    """The same deployment with one agent, without what it depends on."""
    agent = replace(deployment.agents[name], depends_on=())
    return replace(deployment, agents={name: agent})


def without(environ: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """The environment before something was added to it."""
    return {name: value for name, value in environ.items() if name not in added}


def take_over(dotenv: Mapping[str, str], added: Mapping[str, str]) -> None:
    """Give this process the variables of `.env` instead of those `added` that it gave before."""
    for name in added.keys() - dotenv.keys():
        os.environ.pop(name, None)
    os.environ.update(dotenv)
