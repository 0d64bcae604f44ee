"""The verb `check`: read a deployment's configuration and report everything that is wrong with it.

Needs no supervisor: reads the files as one would at its start, and starts nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pallasctl.failures import InvalidConfiguration

if TYPE_CHECKING:
    from pallas_registry.problems import Problem


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check(file: Path | None) -> None:
    """Check the configuration without a supervisor.

    FILE is the agents.yaml that `pallas` would read here, unless given; .env and fastagent.config.yaml are
    those of its folder. All problems are listed at once.

    Exit status: 0 it is good, 2 it is not.
    """
    from pallas_registry.agents_file import deployment_path, read_deployment
    from pallas_registry.environment import load_dotenv
    from pallas_registry.model_settings import read_model_settings
    from pallas_registry.problems import collect, counted

    problems: list[Problem] = []
    directory = file.parent if file is not None else Path()
    added = collect(lambda: load_dotenv(directory, os.environ), problems)
    environ = {**os.environ, **(added or {})}
    path = file if file is not None else deployment_path(environ)
    deployment = collect(lambda: read_deployment(path), problems)
    collect(lambda: read_model_settings(directory, environ), problems)
    if problems or deployment is None:
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise InvalidConfiguration(f"{path}: {count}", details=[str(problem) for problem in problems])
    agents = ", ".join(deployment.agents)
    click.echo(
        f"{path}: good: deployment {deployment.name} with {counted(len(deployment.agents), 'agent')} ({agents})"
    )
