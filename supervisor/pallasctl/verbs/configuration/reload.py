"""The verb `reload`: read the configuration again and touch only what changed.

Knows the reload document; the supervisor decides what a change means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pallasctl.options import control, socket_option
from pallasctl.text import paint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_control.documents import ReloadDocument

_TIMEOUT = 3_600.0
"""Seconds: agents that leave may take their `stop_timeout` first, and another reload may be before this one."""

_ACTIONS: Mapping[str, str] = {
    "live": "no restart",
    "respawn": "new process",
    "rebind": "restart on another port",
}


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what a reload would do.")
@socket_option
def reload(*, dry_run: bool) -> None:
    """Read the configuration again.

    That is agents.yaml, .env, and what fast-agent reads; changed code of an agent is taken over by
    `pallasctl restart`. Only agents that are touched by a change get a new
    process; the rest goes on. An invalid configuration is refused, and everything stays as it is.
    """
    document: ReloadDocument = control().post("/v1/reload", {"dry_run": dry_run}, timeout=_TIMEOUT)
    for line in _lines(document):
        click.echo(line)


def _lines(document: ReloadDocument) -> Iterator[str]:
    if not (document["added"] or document["removed"] or document["changed"]):
        yield "nothing changed" if not document.get("older_code") else "nothing changed in the configuration"
    else:
        yield from _plan_lines(document)
    if older := document.get("older_code"):
        names = " ".join(older)
        yield (
            f"code has changed since the start of {', '.join(older)}: a reload leaves that alone; "
            f"`pallasctl restart {names}` takes it over"
        )


def _plan_lines(document: ReloadDocument) -> Iterator[str]:
    if document["dry_run"]:
        yield "a reload would do this:"
    for name in document["added"]:
        yield paint(f"+ {name}", "green")
    for name in document["removed"]:
        yield paint(f"- {name}", "red")
    for change in document["changed"]:
        action = _ACTIONS.get(change["action"], change["action"])
        yield f"{paint(f'~ {change["agent"]}', 'yellow')}: {', '.join(change['fields'])} ({action})"
    if document["unchanged"]:
        yield f"= unchanged: {', '.join(document['unchanged'])}"
