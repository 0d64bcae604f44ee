"""Options of several verbs: the supervisor, agents by name or all, a time-out, an output format.

Knows click and where to find the control socket; no verb, and of documents only the names of agents.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pallas_control.client import Control

    type Option = Callable[[Callable[..., Any] | click.Command], Any]
    """What makes a function, or a command, take an option."""

DEFAULT_TIMEOUT = 90.0

GATEWAY = "gateway"
"""What the gateway is called where agents are named; an agent of that name comes first. It stands here again, so
that no command loads what the gateway's process is passed for the sake of a word."""


class _Seconds(click.FloatRange):
    """A time that is longer than nothing, called by what it is where it is refused."""

    name = "number of seconds"


SECONDS = _Seconds(min=0, min_open=True)

_SOCKET = "pallasctl.socket"
_DEPLOYMENT = "pallasctl.deployment"


def control() -> Control:
    """The control API of the supervisor that the command line means."""
    from pallas_control.client import Control
    from pallas_control.locate import control_socket_path

    socket, deployment = click.get_current_context().meta.get(_SOCKET), named_deployment()
    if socket is not None and deployment is not None:
        raise click.UsageError(
            "--socket and --deployment both say which supervisor is meant: give one of them"
        )
    return Control(control_socket_path(socket, deployment=deployment))


def named_deployment() -> str | None:
    """The deployment that the command line names."""
    name: str | None = click.get_current_context().meta.get(_DEPLOYMENT)
    return name


def chosen_agents(names: Sequence[str], every: bool) -> list[str]:
    """The agents for a verb's request; an empty list means all of them there.

    Raises:
        click.UsageError: neither agents nor `--all` were given, or both.
    """
    if every and names:
        raise click.UsageError("name agents or give --all, not both")
    if not every and not names:
        raise click.UsageError("name at least one agent, or give --all for every agent")
    return list(dict.fromkeys(names))


def _remember(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.meta[key] = value

    return remember


def complete_agent(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The agents whose names begin so, for the shell; none where no supervisor answers at once."""
    return [name for name in _names(ctx, gateway=False) if name.startswith(incomplete)]


def complete_agent_or_gateway(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """As `complete_agent`, and the gateway, if there is one."""
    return [name for name in _names(ctx, gateway=True) if name.startswith(incomplete)]


def _names(ctx: click.Context, *, gateway: bool) -> list[str]:
    from pallas_control.errors import ControlError

    try:
        with ctx:
            status = control().get("/v1/status", timeout=1.0)
            names = [agent["name"] for agent in status["agents"]]
    except (ControlError, KeyError):
        return []
    return [*names, GATEWAY] if gateway and status.get("gateway") and GATEWAY not in names else names


_socket_option = click.option(
    "--socket",
    metavar="PATH",
    expose_value=False,
    callback=_remember(_SOCKET),
    help="Control socket of the supervisor (or PALLAS_CONTROL_SOCKET).",
)
deployment_option = click.option(
    "--deployment",
    metavar="NAME",
    expose_value=False,
    callback=_remember(_DEPLOYMENT),
    help="The running deployment of this name, from whatever folder.",
)


def supervisor_options[F: Callable[..., Any] | click.Command](function: F) -> F:
    """`--socket` and `--deployment` of a verb that asks a supervisor: which one, if not the one of this folder."""
    taken: F = _socket_option(deployment_option(function))
    return taken


agent_argument = click.argument("agent", metavar="AGENT", shell_complete=complete_agent)
conversation_option = click.option(
    "--conversation-id",
    metavar="ID",
    help="Stands in the agent's log and on its traces, to be found by.",
)
optional_agent_argument = click.argument(
    "agent", required=False, metavar="[AGENT]", shell_complete=complete_agent
)
config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The deployment [default: $PALLAS_AGENTS_CONFIG, else agents.yaml].",
)
"""Of the verbs of `pallas`, which need no supervisor to find the deployment."""
agents_argument = click.argument("agents", nargs=-1, metavar="[AGENT]...", shell_complete=complete_agent)
watched_argument = click.argument(
    "agents", nargs=-1, metavar="[AGENT]...", shell_complete=complete_agent_or_gateway
)
"""Of verbs that know the gateway, too."""
all_option = click.option("--all", "every", is_flag=True, help="Every agent of the deployment.")


def timeout_option(help_: str) -> Option:
    """`--timeout SECONDS` of a verb that waits."""
    return click.option(
        "--timeout",
        type=SECONDS,
        default=DEFAULT_TIMEOUT,
        show_default=True,
        metavar="SECONDS",
        help=help_,
    )


def output_option(*formats: str) -> Option:
    """`-o FORMAT`; the first format is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print it.",
    )
