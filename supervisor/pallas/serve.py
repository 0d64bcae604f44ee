"""What `pallas` does without a verb: reads the configuration and hands it to the supervisor.

Exit status: 0 after a clean stop, 1 if something of this machine is in the way, 2 if the configuration or the command
line is wrong, 78 if the state directory holds what only a newer version knows.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from pallas.allocation import give_back_free_memory
from pallas_common.problems import ConfigurationError, no_such_agent
from pallas_common.processes.descriptors import open_standard_descriptors, withhold_all
from pallas_common.processes.signals import outlive_ordinary_signals
from pallas_common.processes.spawning import raise_descriptor_limit
from pallas_common.protocol.spec import EXIT_PERMANENT
from pallas_common.terminal_text import terminal_line
from pallas_registry.deployment.location import working_directory
from pallas_registry.deployment.named_models import named_models
from pallas_registry.environment.dotenv import worker_environment
from pallas_registry.environment.requirements import is_of_newer
from pallas_registry.resources.files import ResourceFiles
from pallas_registry.source import alone, read_start
from pallas_supervisor.processes.keeper.client import Keeper
from pallas_supervisor.processes.keeper.predecessor import VARIABLE
from pallas_supervisor.processes.zygote_client import zygote_for
from pallas_supervisor.sockets.activation import take_inheritance

if TYPE_CHECKING:
    from pathlib import Path

EXIT_FAILED = 1
EXIT_CONFIGURATION = 2


def serve(agent: str | None, config: Path | None, *, quiet: bool = False, background: bool = False) -> None:
    """Serve the deployment until SIGTERM or SIGINT.

    Args:
        agent: the one to run alone, without registry and dependencies; None for all.
        config: path of `agents.yaml`; None: where the environment or `.env` says, else in the working directory.
        quiet: whether problems alone are printed.
        background: whether nothing is printed once the log is open.
    """
    open_standard_descriptors()
    outlive_ordinary_signals()
    inheritance = take_inheritance(os.environ)  # before one of its numbers can be another's
    resources = ResourceFiles()
    try:
        directory = working_directory()
        configuration, credentials = read_start(directory, os.environ, config, resources)
    except ConfigurationError as error:
        _give_up(str(error), EXIT_PERMANENT if is_of_newer(error) else EXIT_CONFIGURATION)
    os.environ.update({**credentials, **configuration.dotenv})
    deployment = configuration.deployment
    if agent is not None and agent not in deployment.agents:
        message = f"{deployment.path}: {no_such_agent([agent], deployment.agents)}"
        _give_up(message, EXIT_CONFIGURATION)

    withhold_all()
    raise_descriptor_limit()
    give_back_free_memory()
    os.environ[VARIABLE] = secrets.token_hex(16)
    keeper = Keeper(worker_environment(os.environ, {}))
    started = deployment if agent is None else alone(deployment, agent)
    try:
        zygote = zygote_for(started, os.environ, directory, keeper)
    except OSError as error:
        _give_up(f"cannot start: {error}", EXIT_FAILED)
    if zygote is not None:  # which is importing beside us, and looks at this afterwards
        zygote.bring_in(named_models(started, configuration.settings.default_model, os.environ, directory))
    # Only now, while the zygote is importing beside us: a refused configuration should not wait for these.
    from pallas.assignment import Assignment, single
    from pallas.daemon import supervise
    from pallas_supervisor.sockets.instance_lock import AlreadyRunningError
    from pallas_supervisor.sockets.listeners import PortsTakenError

    assignment = Assignment(
        configuration=configuration,
        zygote=zygote,
        keeper=keeper,
        directory=directory,
        quiet=quiet,
        background=background,
        resources=resources,
        inheritance=inheritance,
    )
    try:
        asyncio.run(supervise(single(assignment, agent) if agent is not None else assignment))
    except ConfigurationError as error:
        _give_up(str(error), EXIT_CONFIGURATION)
    except (AlreadyRunningError, PortsTakenError) as error:
        _give_up(str(error), EXIT_FAILED)
    except OSError as error:
        _give_up(f"cannot start: {error}", EXIT_FAILED)
    finally:
        if zygote is not None:
            zygote.kill()
        keeper.end()


def _give_up(message: str, status: int) -> NoReturn:
    click.echo("\n".join(f"pallas: {terminal_line(line)}" for line in message.split("\n")), err=True)
    sys.exit(status)
