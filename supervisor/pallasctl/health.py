"""The verb `health`: how well what runs can do its work.

Knows the health document, which the registry port serves to everyone as `GET /health`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from pallasctl.failures import EXIT_FAILED
from pallasctl.options import control, output_option, socket_option
from pallasctl.status import HEALTH_COLOURS, STATE_COLOURS
from pallasctl.text import Cell, one_line, paint, table

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEADER = ("NAME", "HEALTH", "STATE", "MESSAGE")


@click.command()
@output_option("table", "json")
@socket_option
@click.pass_context
def health(ctx: click.Context, output: str) -> None:
    """Show the health of the deployment and of each agent.

    Exit status: 0 ok or degraded, 1 error: nothing that should run can serve.
    """
    document = control().get("/v1/health", accept=(200, 503))
    if output == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(
            f"{paint(document['status'], HEALTH_COLOURS.get(document['status']))} at {document['timestamp']}"
        )
        click.echo(
            table(_HEADER, [_row(name, agent) for name, agent in document["agents"].items()], fit=True)
        )
    if document["status"] == "error":
        ctx.exit(EXIT_FAILED)


def _row(name: str, agent: Mapping[str, Any]) -> list[Cell]:
    return [
        Cell(name),
        Cell(agent["status"], HEALTH_COLOURS.get(agent["status"])),
        Cell(agent["state"], STATE_COLOURS.get(agent["state"])),
        Cell(one_line(agent.get("message", ""))),
    ]
