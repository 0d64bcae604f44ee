"""The verb `reload`: read the configuration again and touch only what changed.

Knows the reload document; the supervisor decides what a change means.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pallas_common.protocol.gateway import OPERATOR_FILE
from pallas_control.errors import ControlError
from pallasctl.options import control, supervisor_options
from pallasctl.text import one_line, paint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_control.documents import ChangedGateway, GatewayAddress, ReloadDocument, StatusDocument

_TIMEOUT = 3_600.0
"""Seconds: agents that leave may take their `stop_timeout` first, and another reload may be before this one."""

_ACTIONS: Mapping[str, str] = {
    "live": "no restart",
    "respawn": "new process",
    "rebind": "restart on another port",
}


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what a reload would do.")
@supervisor_options
def reload(*, dry_run: bool) -> None:
    """Read the configuration again.

    That is agents.yaml, .env, and what fast-agent reads; changed code of an agent is taken over by
    `pallasctl restart`. Only agents and a gateway that are touched by a change get a new
    process; the rest goes on. An invalid configuration is refused, and everything stays as it is.
    """
    document: ReloadDocument = control().post("/v1/reload", {"dry_run": dry_run}, timeout=_TIMEOUT)
    for line in _lines(document):
        click.echo(line)


def _lines(document: ReloadDocument) -> Iterator[str]:
    changes = (document["added"], document["removed"], document["changed"], document.get("gateway"))
    if not any(changes):
        yield "nothing changed" if not document.get("older_code") else "nothing changed in the configuration"
    else:
        yield from _plan_lines(document)
    if older := document.get("older_code"):
        names = " ".join(older)
        yield (
            f"code has changed since the start of {', '.join(older)}: a reload leaves that alone; "
            f"`pallasctl restart {names}` takes it over"
        )


def _gateway_lines(change: ChangedGateway) -> Iterator[str]:
    before, after = change["before"], change["after"]
    if after is None:
        yield paint("- gateway", "red")
    elif before is None:
        yield f"{paint('+ gateway', 'green')}: {one_line(after['public_url'])}/mcp"
        if (token := _token_file()) is not None:
            yield f"  its token for pallasctl and you: {token}"
    else:
        fields = ", ".join(_changed_field(field, before, after) for field in change["fields"])
        where = f" at {one_line(after['public_url'])}/mcp" if before != after else ""
        action = "no restart" if change["action"] == "live" else f"new process{where}"
        yield f"{paint('~ gateway', 'yellow')}: {fields} ({action})"


def _changed_field(field: str, before: GatewayAddress, after: GatewayAddress) -> str:
    """The field, with both values where it is a part of the address."""
    old, new = dict(before), dict(after)
    if field not in old or field not in new:
        return field
    return f"{field} {one_line(str(old[field]))} -> {one_line(str(new[field]))}"


def _token_file() -> str | None:
    """Where the gateway puts its first token; None where nobody says it."""
    try:
        document: StatusDocument = control().get("/v1/status")
    except ControlError:  # the reload itself has been answered
        return None
    state = document["supervisor"].get("state_directory")
    return None if state is None else one_line(str(Path(state, OPERATOR_FILE)))


def _plan_lines(document: ReloadDocument) -> Iterator[str]:
    if document["dry_run"]:
        yield "a reload would do this:"
    if (gateway := document.get("gateway")) is not None:
        yield from _gateway_lines(gateway)
    for name in document["added"]:
        yield paint(f"+ {name}", "green")
    for name in document["removed"]:
        yield paint(f"- {name}", "red")
    for change in document["changed"]:
        action = _ACTIONS.get(change["action"], change["action"])
        yield f"{paint(f'~ {change["agent"]}', 'yellow')}: {', '.join(change['fields'])} ({action})"
    if document["unchanged"]:
        yield f"= unchanged: {', '.join(document['unchanged'])}"
