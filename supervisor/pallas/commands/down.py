"""The verb `down`: stop the deployment of this directory, and wait until nothing is left of it.

Knows what is said and which exit status it gets; signals go to the very process that listens on the control socket.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pallas_common.problems import counted
from pallas_common.terminal_text import terminal_line
from pallas_control.client import Control
from pallas_control.errors import ControlError
from pallasctl.failures import EXIT_INTERRUPTED, Failure
from pallasctl.options import SECONDS, config_option, deployment_option, named_deployment

if TYPE_CHECKING:
    from pallas.commands.background.process import SupervisorProcess
    from pallas_control.documents import StatusDocument

DEFAULT_TIMEOUT = 90.0
SLOW = 3.0
"""Seconds after which it is said which agents are being waited for; the next time after twice as many."""
AGAIN = 0.2
"""Seconds between two signals that want an end without grace: two at once would count as one."""


@click.command()
@config_option
@deployment_option
@click.option(
    "--timeout",
    type=SECONDS,
    default=DEFAULT_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until nothing is left.",
)
@click.option("--now", is_flag=True, help="Kill the agents, whatever they are doing.")
@click.pass_context
def down(ctx: click.Context, *, config: Path | None, timeout: float, now: bool) -> None:
    """Stop the deployment of this directory.

    Agents finish their calls, and nothing is left. A deployment that a service manager runs is its to stop.
    Ctrl-C ends the waiting; the stop goes on.

    Exit status: 0 nothing runs any more, or did not run; 1 something is left, or is not yours to stop; 2 wrong usage.
    """
    from pallas.commands.background.process import SupervisorProcess

    path, name = _socket(config)
    process = None
    if path is not None:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError, ProcessLookupError):
            process = SupervisorProcess(path)
    if path is None or process is None:
        click.echo(terminal_line(f"{name} does not run: nothing to stop"), err=True)
        return
    with process:
        _refuse_others(process)
        try:
            _stop(process, Control(path), name, timeout, now=now)
        except KeyboardInterrupt:
            click.echo(
                "\nNot waiting any more; the stop goes on. `pallas down --now` kills what is left.", err=True
            )
            ctx.exit(EXIT_INTERRUPTED)


def _socket(config: Path | None) -> tuple[Path | None, str]:
    """The control socket of the deployment that is meant, None if it does not run, and the deployment's name.

    Raises:
        Failure: there is no deployment here.
        NamesakeError: another deployment of its name runs, and this one does not.
    """
    from pallas_common.problems import ConfigurationError
    from pallas_control.locate import SOCKET_VARIABLE, named_socket, socket_of
    from pallas_registry.deployment.location import deployment_name, deployment_path, working_directory
    from pallas_registry.environment.dotenv import load_dotenv

    name = named_deployment()
    if name is None and (named := os.environ.get(SOCKET_VARIABLE)):
        return Path(named), named
    try:
        environ = {**load_dotenv(working_directory(), os.environ), **os.environ}
    except ConfigurationError:
        environ = dict(os.environ)
    if name is not None:
        if config is not None:
            raise click.UsageError(
                "--config and --deployment both say which deployment is meant: give one of them"
            )
        return named_socket(name, environ), name
    file = config or deployment_path(environ)
    name = deployment_name(file)
    if name is None:
        raise Failure(
            f"{file}: no deployment here, so none to stop; cd to the folder of its agents.yaml, or give --config FILE"
        )
    return socket_of(file, name, environ), name


def _refuse_others(process: SupervisorProcess) -> None:
    """Raises a failure if it is another's to stop."""
    if process.uid != os.geteuid() and os.geteuid() != 0:
        try:
            user = pwd.getpwuid(process.uid).pw_name
        except KeyError:
            user = f"uid {process.uid}"
        raise Failure(f"process {process.pid} belongs to {user}: stop it as {user}, or with sudo")
    if (unit := process.unit) is not None:
        raise Failure(f"{unit.name} runs it: stop it with `{unit.stop_command}`")


def _stop(process: SupervisorProcess, control: Control, name: str, timeout: float, *, now: bool) -> None:
    began = time.monotonic()
    deadline, notice = began + timeout, began + SLOW
    running = _left(control)
    agents = f", {counted(len(running), 'agent')}" if running else ""
    click.echo(terminal_line(f"Stopping {name}{agents}"), err=True)
    process.send(signal.SIGTERM)
    while not process.has_ended(
        max(0.0, min(AGAIN if now else notice - time.monotonic(), deadline - time.monotonic()))
    ):
        moment = time.monotonic()
        if moment >= deadline:
            way_out = f"kill -9 {process.pid}" if now else "pallas down --now"
            left = ", ".join(_left(control)) or f"process {process.pid}"
            raise Failure(f"not stopped within {timeout:g} s: {left}; `{way_out}` kills what is left")
        if now:
            process.send(signal.SIGTERM)
        if moment >= notice:
            if left := ", ".join(_left(control)):
                click.echo(terminal_line(f"waiting for {left}, {moment - began:.0f} s so far"), err=True)
            notice = moment + (moment - began)
    click.echo(f"Stopped in {time.monotonic() - began:.1f} s", err=True)


def _left(control: Control) -> list[str]:
    """The agents that are not at rest, as far as that can be asked."""
    try:
        document: StatusDocument = control.get("/v1/status", timeout=2.0)
    except ControlError:
        return []
    return [
        f"{agent['name']} ({agent['state']})"
        for agent in document["agents"]
        if agent["state"] not in ("stopped", "failed")
    ]
