"""The verb `check`: read a deployment's configuration and report everything that is wrong with it.

Needs no supervisor: it reads files and environment as a supervisor does at its start, and starts nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from pallasctl.failures import InvalidConfiguration


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check(file: Path | None) -> None:
    """Check the configuration without a supervisor.

    FILE is the agents.yaml that `pallas` would read here, unless given; .env and fastagent.config.yaml are
    those of its folder. All problems are listed at once; warnings do not count.

    Exit status: 0 it is good, 2 it is not.
    """
    from pallas_common.problems import ConfigurationError, collect, counted
    from pallas_registry.deployment.agents_file import deployment_path, working_directory
    from pallas_registry.environment.dotenv import load_dotenv
    from pallas_registry.source import read_start

    try:
        directory = file.parent if file is not None else working_directory()
    except ConfigurationError as error:
        raise InvalidConfiguration(str(error)) from None
    try:
        configuration, _ = read_start(directory, os.environ, file)
    except ConfigurationError as error:
        count = "one problem" if len(error.found) == 1 else f"{len(error.found)} problems"
        dotenv = collect(lambda: load_dotenv(directory, os.environ), []) or {}
        path = file or deployment_path({**os.environ, **dotenv})
        details = [str(problem) for problem in error.problems]
        raise InvalidConfiguration(f"{path}: {count}", details=details) from None
    for warning in configuration.warnings:
        click.echo(f"pallasctl: warning: {warning}", err=True)
    deployment = configuration.deployment
    path = file or deployment_path({**os.environ, **configuration.dotenv})
    agents = ", ".join(deployment.agents)
    click.echo(
        f"{path}: good: deployment {deployment.name} with {counted(len(deployment.agents), 'agent')} ({agents})"
    )
