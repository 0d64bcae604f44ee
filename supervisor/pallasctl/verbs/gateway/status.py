"""The verb `gateway status`: whether the gateway serves, where, and why not.

Knows its entry of the status document and how people read it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from pallas_common.problems import counted
from pallas_common.terminal_text import terminal_json
from pallas_control.errors import ControlError
from pallasctl.failures import EXIT_NOT_RUNNING, Failure, StatusUnknown
from pallasctl.options import control, output_option, supervisor_options
from pallasctl.text import HEALTH_COLOURS, STATE_COLOURS, format_duration, format_size, one_line, paint

if TYPE_CHECKING:
    from pallas_control.documents import GatewayStatus, StatusDocument

NONE = "this deployment has no gateway; `gateway: {}` in agents.yaml and `pallasctl reload` turn it on"


@click.command()
@output_option("text", "json")
@supervisor_options
@click.pass_context
def status(ctx: click.Context, *, output: str) -> None:
    """Show whether the gateway serves, where, and why not.

    Exit status: 0 it is ready, 1 there is none, 3 it is not ready or cannot answer, 4 unknown: no supervisor answers.
    """
    try:
        document: StatusDocument = control().get("/v1/status")
    except ControlError as error:
        raise StatusUnknown(error.message, details=error.details) from error
    if (gateway := document.get("gateway")) is None:
        raise Failure(NONE)
    if output == "json":
        click.echo(terminal_json(gateway))
    else:
        for line in lines_of(gateway, datetime.now(UTC)):
            click.echo(line)
    if not serves(gateway):
        ctx.exit(EXIT_NOT_RUNNING)


def serves(gateway: GatewayStatus) -> bool:
    """Whether it is ready, and can answer."""
    return gateway["state"] == "ready" and gateway["health"] != "error"


def line_of(gateway: GatewayStatus) -> str:
    """Its state in a line."""
    state = paint(gateway["state"], STATE_COLOURS.get(gateway["state"]))
    process = f" (pid {gateway['pid']})" if gateway["pid"] is not None else ""
    message = f": {one_line(gateway['message'])}" if gateway["message"] else ""
    return f"gateway: {state}{process} at {one_line(gateway['public_url'])}{message}"


def lines_of(gateway: GatewayStatus, now: datetime) -> list[str]:
    """All that is known of it."""
    age = format_duration((now - datetime.fromisoformat(gateway["since"])).total_seconds())
    health = paint(gateway["health"], HEALTH_COLOURS.get(gateway["health"]))
    facts = {
        "health": health,
        "for": age,
        "listens": f"{gateway['bind']} port {gateway['port']}",
        "agents": "behind it" if gateway["workers"] == "behind" else "reached on their own ports as well",
        "memory": format_size(gateway["resident_memory"]),
        "starts": f"{gateway['generation']} ({counted(gateway['restarts'], 'restart')})",
        "last exit": one_line(gateway["last_exit"] or "-"),
    }
    return [line_of(gateway), *(f"  {name + ':':<10} {said}" for name, said in facts.items())]
