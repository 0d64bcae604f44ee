"""The verb `up`: serve in the foreground, as `pallas` does without a verb, or with -d in the background.

Knows what is said and which exit status it gets; `background` has the steps.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from pallas_common.terminal_text import terminal_line
from pallas_control.client import Control
from pallas_control.errors import ControlError, ForbiddenError, UnreachableError
from pallasctl.failures import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, Failure
from pallasctl.options import SECONDS, config_option
from pallasctl.text import format_duration

if TYPE_CHECKING:
    from pallas.commands.background.start import BackgroundSupervisor
    from pallas_control.documents import StatusDocument
    from pallas_registry.source import Configuration

DEFAULT_TIMEOUT = 120.0

_STOP = "`pallas down` stops all."


@click.command()
@click.option("-d", "--detach", is_flag=True, help="In the background; return when the agents are up.")
@click.option("--agent", metavar="NAME", help="Run this agent alone: no registry, no dependencies.")
@config_option
@click.option(
    "--timeout",
    type=SECONDS,
    default=DEFAULT_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="With -d: how long to wait for the agents.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print problems alone.")
@click.option("--in-background", is_flag=True, hidden=True, help="What -d starts.")
@click.pass_context
def up(
    ctx: click.Context,
    *,
    detach: bool,
    agent: str | None,
    config: Path | None,
    timeout: float,
    quiet: bool,
    in_background: bool,
) -> None:
    """Serve the deployment, or with -d in the background.

    With -d, agents that fail leave the others running: `pallas down` stops all. If the deployment runs already,
    nothing is started, and what it says of its agents is shown. Ctrl-C ends the waiting, and all goes on.

    Exit status with -d: 0 every agent is ready, 1 some are not, or something of this machine is in the way,
    2 the configuration or the command line is wrong, and nothing was started; 78 the state directory holds what
    only a newer version knows.
    """
    if not detach:
        from pallas.serve import serve

        serve(agent, config, quiet=quiet, background=in_background)
        return
    arguments = [*(("--agent", agent) if agent else ()), *(("--config", str(config)) if config else ())]
    configuration, path = _read(agent, config)
    control = Control(path)
    deadline = time.monotonic() + timeout
    try:
        status = _up(control, configuration, arguments, deadline, quiet=quiet)
    except KeyboardInterrupt:
        click.echo(f"\nNot waiting any more; it goes on. {_STOP}", err=True)
        status = EXIT_INTERRUPTED
    ctx.exit(status)


def _read(agent: str | None, config: Path | None) -> tuple[Configuration, Path]:
    """What would be served, and where its control socket is; ends with status 2 if it cannot be."""
    from pallas_common.problems import ConfigurationError, no_such_agent
    from pallas_common.protocol.spec import EXIT_PERMANENT
    from pallas_registry.deployment.location import working_directory
    from pallas_registry.environment.requirements import is_of_newer
    from pallas_registry.environment.runtime_directory import control_socket
    from pallas_registry.source import read_start

    try:
        configuration, credentials = read_start(working_directory(), os.environ, config)
        deployment = configuration.deployment
        path = control_socket(deployment.name, {**os.environ, **credentials, **configuration.dotenv})
    except ConfigurationError as error:
        _end(str(error), EXIT_PERMANENT if is_of_newer(error) else EXIT_USAGE)
    if agent is not None and agent not in deployment.agents:
        _end(f"{deployment.path}: {no_such_agent([agent], deployment.agents)}", EXIT_USAGE)
    return configuration, path


def _up(
    control: Control, configuration: Configuration, arguments: list[str], deadline: float, *, quiet: bool
) -> int:
    from pallas.commands.background.start import BackgroundSupervisor

    began, since = time.monotonic(), datetime.now(UTC)
    document = _running(control)
    if document is not None:
        since = datetime.now(UTC) + timedelta(days=1)  # what it said before is in its log
        _tell_running(document, configuration)
    else:
        started = BackgroundSupervisor(arguments)
        document = _until_answering(control, started, deadline)
    return _follow(control, document, deadline, began, since, quiet=quiet)


def _running(control: Control) -> StatusDocument | None:
    """What runs already; None if nothing does."""
    try:
        document: StatusDocument = control.get("/v1/status")
    except ForbiddenError:
        raise
    except UnreachableError:
        return None
    return document


def _tell_running(document: StatusDocument, configuration: Configuration) -> None:
    """Say so, and what to do about files that have changed since.

    Raises:
        Failure: it is another deployment of the same name.
    """
    from pallas_control.locate import is_same_file

    ours, theirs = configuration.deployment.path, document.get("file", "")
    supervisor = document["supervisor"]
    if theirs and not is_same_file(Path(theirs), ours):
        raise Failure(
            f"another deployment of the name {document['deployment']} runs, process {supervisor['pid']}: {theirs}, "
            f"and this is {ours}; give this one another `name:`, or set PALLAS_RUNTIME_DIR"
        )
    age = (datetime.now(UTC) - datetime.fromisoformat(supervisor["since"])).total_seconds()
    click.echo(
        f"It runs already, as process {supervisor['pid']}, for {format_duration(age)}; nothing was started.",
        err=True,
    )
    files = document.get("configuration")
    if files is not None and files["changed"]:
        names = ", ".join(files["changed"])
        click.echo(
            terminal_line(f"{names} changed since: `pallasctl reload` takes over what it says."), err=True
        )


def _until_answering(control: Control, started: BackgroundSupervisor, deadline: float) -> StatusDocument:
    """Its first answer; ends as it has ended if it does not get that far."""
    from pallas.commands.background.follow import INTERVAL

    while (status := started.ended()) is None:
        try:
            document: StatusDocument = control.get("/v1/status")
        except ForbiddenError:
            raise
        except UnreachableError:
            if time.monotonic() >= deadline:
                raise Failure(
                    f"process {started.pid} does not answer on {control.path} yet; `pallasctl status` asks again, "
                    f"`kill {started.pid}` ends it"
                ) from None
            time.sleep(INTERVAL)
        else:
            if document["supervisor"]["pid"] == started.pid:
                return document
            time.sleep(INTERVAL)
    for line in started.printed().splitlines():
        click.echo(terminal_line(line), err=True)
    how = f"ended with status {status}" if status >= 0 else f"was killed by signal {-status}"
    if status != EXIT_USAGE:
        click.echo(f"pallas: not started: the supervisor {how}", err=True)
    sys.exit(EXIT_USAGE if status == EXIT_USAGE else EXIT_FAILED)


def _follow(
    control: Control, document: StatusDocument, deadline: float, began: float, since: datetime, *, quiet: bool
) -> int:
    from pallas.commands.background.follow import INTERVAL, Follower

    follower = Follower(control, document, way_out=_STOP, quiet=quiet, began=began, since=since)
    try:
        while True:
            follower.look()
            if follower.story.summarised and not follower.waits_for_gateway:
                break
            if time.monotonic() >= deadline:
                late = ", ".join(f"{view.name} ({view.state})" for view in follower.story.failing)
                late = late or ("the gateway" if follower.waits_for_gateway else "")
                what = f"not ready in time: {late}" if late else "not ready in time"
                raise Failure(f"{what}; it goes on, `pallasctl status` shows how. {_STOP}")
            time.sleep(INTERVAL)
    except UnreachableError as error:
        raise Failure(f"the supervisor has ended meanwhile ({error.message}); its log says why") from error
    except ControlError as error:
        raise Failure(error.message, details=error.details) from error
    finally:
        follower.close()
    return EXIT_FAILED if follower.story.failing else 0


def _end(message: str, status: int) -> NoReturn:
    for line in message.split("\n"):
        click.echo(f"pallas: {terminal_line(line)}", err=True)
    sys.exit(status)
