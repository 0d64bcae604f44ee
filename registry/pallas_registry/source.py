"""All that a deployment's files and its environment say at one moment: one reader for start, reload and check.

`agents.yaml`, the resources that are kept, `.env`, our keys of fast-agent's settings, our variables; and whether
fast-agent will be able to read its files. Reads and checks them together; changes nothing, and knows no process.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from pallas_common.logs.levels import levels
from pallas_common.problems import ConfigurationError, Problem, collect, shortened
from pallas_common.processes.way_out import unusable
from pallas_common.protocol.probe_interval import PROBE_INTERVAL, probe_interval
from pallas_common.secrets.references import referred
from pallas_registry.deployment.agents_file import read_deployment
from pallas_registry.deployment.location import deployment_path
from pallas_registry.environment.credentials import load_credentials
from pallas_registry.environment.dotenv import DOTENV, load_dotenv
from pallas_registry.environment.requirements import check_requirements
from pallas_registry.environment.state_directory import state_directory
from pallas_registry.environment.variables import check_variables
from pallas_registry.fastagent_files.discovery import settings_file
from pallas_registry.fastagent_files.literal_keys import literal_keys
from pallas_registry.fastagent_files.models import read_model_settings
from pallas_registry.fastagent_files.paths import HOME_VARIABLE, SECRETS_FILES, settings_files
from pallas_registry.reading import rules
from pallas_registry.reading.files import read_file
from pallas_registry.reading.nodes import compose
from pallas_registry.resources.assembly import assemble
from pallas_registry.resources.files import ResourceFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pallas_common.logs.levels import Levels
    from pallas_registry.deployment.model import Deployment, ModelSettings
    from pallas_registry.resources.assembly import Assembly
    from pallas_registry.resources.model import ResourceId, ResourceSet


_KEY_IN_AGENTS = "put it into .env, whose variables every agent gets"
_KEY_IN_SETTINGS = "put it into .env, and write `${NAME}` here, with its name there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What was read. The variables of `.env` may be secrets: they are in no text of it."""

    deployment: Deployment
    """With the agents that are declared as resources."""
    assembly: Assembly = field(repr=False)
    """What it is made of."""
    state_directory: Path | None = None
    """Where resources are kept; None: the user has no home."""
    settings: ModelSettings
    levels: Levels
    probe_interval: float = PROBE_INTERVAL
    """Seconds from one probe of what an agent needs to the next."""
    dotenv: Mapping[str, str] = field(repr=False)
    """What `.env` adds to the environment."""
    warnings: tuple[Problem, ...] = field(default=(), compare=False)
    """What can be used and should be different."""

    @property
    def base(self) -> Deployment:
        """`agents.yaml` alone."""
        return self.assembly.base

    @property
    def resources(self) -> ResourceSet:
        """All resources that can be used."""
        return self.assembly.resources

    @property
    def disabled(self) -> Mapping[ResourceId, tuple[Problem, ...]]:
        """What is wrong with the resources that cannot be used, or with what they need."""
        return self.assembly.disabled

    def with_resources(self, assembly: Assembly) -> Configuration:
        """The same with other resources."""
        return replace(self, deployment=assembly.deployment, assembly=assembly)


class Start(NamedTuple):
    """What a supervisor starts with."""

    configuration: Configuration
    credentials: Mapping[str, str]
    """What a service manager's credentials add to the environment, before `.env` does."""


def read_start(
    directory: Path, environ: Mapping[str, str], path: Path | None = None, files: ResourceFiles | None = None
) -> Start:
    """What a supervisor would start with that is started in `directory` now.

    Args:
        path: of `agents.yaml`; None: where the environment or `.env` says, else in `directory`.
        files: remembers the resources that it has read; None to forget them.

    Raises:
        ConfigurationError: it cannot be used; all problems of all files and variables.
    """
    problems: list[Problem] = []
    credentials = collect(lambda: load_credentials(environ), problems) or {}
    together = {**environ, **credentials}
    configuration = collect(lambda: read_configuration(directory, together, path, files=files), problems)
    if problems or configuration is None:
        raise ConfigurationError(problems)
    return Start(configuration, credentials)


def read_configuration(
    directory: Path,
    environ: Mapping[str, str],
    path: Path | None = None,
    only: str | None = None,
    files: ResourceFiles | None = None,
) -> Configuration:
    """The configuration as it is now.

    Args:
        directory: the agents' working directory, with `.env` and fast-agent's settings.
        environ: the environment without what `.env` has added.
        path: of `agents.yaml`; None: where the environment or `.env` says, else in `directory`.
        only: the one agent that is run, without registry and dependencies; None for all.
        files: remembers the resources that it has read before; None to read all.

    Raises:
        ConfigurationError: it cannot be used; all problems of all files and variables. A resource that cannot be used
            is no such problem.
    """
    problems: list[Problem] = []
    dotenv = collect(lambda: load_dotenv(directory, environ), problems) or {}
    together = {**environ, **dotenv}
    file = path or deployment_path(together)
    base = collect(lambda: read_deployment(file, directory), problems)
    state = None if base is None else collect(lambda: state_directory(base.name, together), [])
    collect(lambda: check_requirements(state), problems)
    kept = collect(lambda: (files or ResourceFiles()).read(state), problems)
    assembly = None if base is None or kept is None else assemble(base, kept)
    deployment = (
        None if assembly is None else collect(lambda: _narrowed(assembly.deployment, file, only), problems)
    )
    in_use = collect(lambda: settings_file(directory, together.get(HOME_VARIABLE)), [])
    settings = collect(lambda: read_model_settings(directory, together), problems)
    level = settings.log_level if settings is not None else None
    chosen = collect(lambda: levels(together, level), problems)
    interval = collect(lambda: probe_interval(together), problems)
    collect(lambda: check_variables(together, deployment.name if deployment is not None else "any"), problems)
    problems += _ways_out(together, str(directory / DOTENV), dotenv, deployment, file)
    homes = {together.get(HOME_VARIABLE)}
    if deployment is not None:
        homes.update(agent.env.get(HOME_VARIABLE) for agent in deployment.agents.values())
    others = {path for home in homes for path in settings_files(directory, home)}
    warnings = _literal_keys(file, _KEY_IN_AGENTS, [])
    for other in sorted(others):
        # What is wrong with that one, `read_model_settings` has noted already.
        found = [] if other == in_use else problems
        warnings += _literal_keys(other, _KEY_IN_SETTINGS, found)
    if deployment is not None:
        warnings += [*_references(deployment, file), *_of_gateway(deployment, file)]
    if (
        problems
        or assembly is None
        or deployment is None
        or settings is None
        or chosen is None
        or interval is None
    ):
        raise ConfigurationError(problems)
    return Configuration(
        deployment=deployment,
        assembly=assembly,
        state_directory=state,
        settings=settings,
        levels=chosen,
        probe_interval=interval,
        dotenv=dotenv,
        warnings=tuple(warnings),
    )


def alone(deployment: Deployment, name: str) -> Deployment:
    """The same deployment with one agent, without what it depends on, and without a gateway."""
    agent = replace(deployment.agents[name], depends_on=())
    return replace(deployment, agents={name: agent}, gateway=None)


def _narrowed(deployment: Deployment, path: Path, only: str | None) -> Deployment:
    if only is None:
        return deployment
    if only not in deployment.agents:
        known = ", ".join(deployment.agents)
        message = f"there is no agent {only!r} any more, the one that runs here"
        raise ConfigurationError(
            [Problem(str(path), None, "agents", message, f"there are {known}; start another one")]
        )
    return alone(deployment, only)


def _ways_out(
    environ: Mapping[str, str],
    dotenv_file: str,
    dotenv: Mapping[str, str],
    deployment: Deployment | None,
    file: Path,
) -> list[Problem]:
    """Proxies and certificates that no HTTP client could be made with, each where it is set."""
    agents = deployment.agents.values() if deployment is not None else ()
    # An interpreter of an agent's own may have what is missing in ours.
    missing = importlib.util.find_spec("socksio") is None and all(agent.python is None for agent in agents)
    found = [
        Problem(dotenv_file if each.variable in dotenv else "environment", None, *each)
        for each in unusable(environ, socks=not missing)
    ]
    for agent in agents:
        line = agent.places["env"].line if "env" in agent.places else None
        found += [
            Problem(str(file), line, f"agents.{agent.name}.env.{each.variable}", each.message, each.remedy)
            for each in unusable(agent.env, socks=not missing)
        ]
    return found


def _references(deployment: Deployment, file: Path) -> list[Problem]:
    """Values of `env:` that are written as if something were put into them, as other programs do."""
    return [
        Problem(
            str(file),
            agent.places["env"].line if "env" in agent.places else None,
            f"agents.{agent.name}.env.{name}",
            f"`${{{shortened(references[0])}}}` stays as it is written: nothing is put in here",
            "write the value, or put the variable into .env, whose variables every agent gets",
        )
        for agent in deployment.agents.values()
        for name, value in agent.env.items()
        if (references := referred(value))
    ]


def _without_gateway(deployment: Deployment, file: Path) -> list[Problem]:
    """That whoever reaches the deployment may use it, where that is more than this machine."""
    if rules.is_loopback(deployment.bind):
        return []
    key = "bind" if "bind" in deployment.places else "host"
    place = deployment.places.get(key)
    return [
        Problem(
            str(file),
            place.line if place else None,
            key,
            f"without a gateway, whoever reaches {deployment.bind} uses all agents without a token",
            "add `gateway: {}`, behind which agents' ports are closed, or set `bind: 127.0.0.1`",
        )
    ]


def _of_gateway(deployment: Deployment, file: Path) -> list[Problem]:
    """What the gateway's settings leave open that had better be closed."""
    settings, found = deployment.gateway, []
    if settings is None:
        return _without_gateway(deployment, file)

    def warn(key: str, message: str, remedy: str) -> None:
        places = deployment.places
        place = places.get(f"gateway.{key}") or places.get(f"gateway.{key.partition('.')[0]}")
        found.append(Problem(str(file), place.line if place else None, f"gateway.{key}", message, remedy))

    if settings.auth == "none":
        warn(
            "auth",
            "`none` lets every user and program of this machine use all agents",
            "remove it, and use a token",
        )
    if settings.workers == "open":
        warn(
            "workers",
            "`open` lets whoever reaches the port of an agent use it without a token",
            "remove it, so that all calls come by the gateway",
        )
    if settings.store is not None and rules.store_password(settings.store):
        warn(
            "store",
            "holds a password, and whoever reads the file has it",
            f"put the whole URL into .env, as {rules.STORE_VARIABLE}=…, and leave the password out here",
        )
    if settings.oidc is not None and settings.oidc.client_secret:
        warn(
            "oidc.client_secret",
            "is written down here, and whoever reads the file has it",
            f"put it into .env, as {rules.CLIENT_SECRET_VARIABLE}=…, and leave it out here",
        )
    return found


def _literal_keys(path: Path, remedy: str, problems: list[Problem]) -> list[Problem]:
    """Keys in a YAML file that are not to be there; problems are noted where the file cannot be read at all.

    The rest of fast-agent's files is left to fast-agent, and its secrets' file is where keys may be.
    """
    data = collect(lambda: read_file(path), problems)
    root = collect(lambda: compose(data, str(path)), problems) if data else None
    return [] if root is None or path.name in SECRETS_FILES else literal_keys(root, str(path), remedy)
