"""The verb `check`: read a deployment's configuration and report everything that is wrong with it.

Needs no supervisor: reads the files as one would at its start, and starts nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from pallasctl.failures import InvalidConfiguration


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
def check(file: Path | None) -> None:
    """Check agents.yaml without a supervisor.

    FILE is the agents.yaml that `pallas` would read here, unless given. All problems are listed at once.

    Exit status: 0 it is good, 2 it is not.
    """
    from pallas_registry.agents_file import deployment_path, read_deployment
    from pallas_registry.problems import ConfigurationError

    path = file if file is not None else deployment_path(os.environ)
    try:
        deployment = read_deployment(path)
    except ConfigurationError as error:
        count = len(error.problems)
        raise InvalidConfiguration(
            f"{path}: {count} problem{'s' if count > 1 else ''}",
            details=[str(problem) for problem in error.problems],
        ) from None
    agents = ", ".join(deployment.agents) or "no agents"
    click.echo(f"{path}: good: deployment {deployment.name} with {len(deployment.agents)} agents ({agents})")
