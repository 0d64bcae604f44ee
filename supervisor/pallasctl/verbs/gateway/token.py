"""The verb `token`, with verbs of its own: tokens for the gateway, made, listed, revoked and rotated.

Knows these requests and how people read the answers; what may stand in a token is for the gateway to say.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from pallas_common.problems import quoted
from pallas_common.terminal_text import terminal_json
from pallas_control.errors import GatewayRefusedError
from pallasctl.options import complete_agent, output_option
from pallasctl.text import Cell, format_duration, one_line, table
from pallasctl.verbs.gateway.asking import gateway, gateway_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_control.gateway import Gateway

_PATH = "/api/v1/tokens"
_SHOWN = ("id", "token", "role", "agent", "tenant", "grants", "expires")
_OPTIONS = {
    "name": "NAME",
    "role": "--role",
    "agent": "--agent",
    "grants": "--grant",
    "tenant": "--tenant",
    "expires": "--expires",
    "grace": "--grace",
}
"""Field of a request → what it is on the command line."""
_HEADER = ("ID", "NAME", "ROLE", "AGENT", "EXPIRES", "LAST USED", "GRANTS")


@click.group()
def token() -> None:
    """Make, list, revoke and rotate tokens for the gateway.

    A token says who asks, and what they may: `--grant VERB:KIND[:NAME]`, with verbs view, create, edit, delete, run,
    approve and kinds agents, projects, threads, resources, policy, knowledge, code; `*` stands for any.
    """


@token.command()
@click.argument("name")
@click.option(
    "--role", type=click.Choice(("human", "agent")), required=True, help="A person or program, or an agent."
)
@click.option(
    "--agent", metavar="AGENT", shell_complete=complete_agent, help="Whose token it is, with --role agent."
)
@click.option(
    "--grant",
    "grants",
    multiple=True,
    metavar="GRANT",
    help="What it may, as run:agents:jarvis or view:agents; '*' is everything a human may have.",
)
@click.option("--tenant", metavar="TENANT", help="[default: default]")
@click.option(
    "--expires", metavar="TIME", help="30d, 12h, 2030-01-31 or 2030-01-31T12:00:00Z [default: never]."
)
@output_option("text", "json")
@gateway_options
def create(
    *,
    name: str,
    role: str,
    agent: str | None,
    grants: tuple[str, ...],
    tenant: str | None,
    expires: str | None,
    output: str,
) -> None:
    """Make a token, and print it: it is shown this once.

    NAME says whose it is, for lists and the audit.
    """
    given = {"agent": agent, "tenant": tenant, "expires": expires}
    body = {"name": name, "role": role, "grants": list(grants)}
    with _in_options():
        made = gateway().post(_PATH, body | {key: value for key, value in given.items() if value is not None})
    _show_new(made, output)


@token.command(name="list")
@click.option("-a", "--all", "every", is_flag=True, help="Also those that were revoked or have expired.")
@output_option("table", "json")
@gateway_options
def list_(*, every: bool, output: str) -> None:
    """List tokens; their texts are kept nowhere."""
    document = gateway().get(f"{_PATH}?all={'true' if every else 'false'}")
    if output == "json":
        click.echo(terminal_json(document))
        return
    now = datetime.now(UTC)
    click.echo(table(_HEADER, [_row(entry, now) for entry in document["tokens"]], fit=True))
    for damaged in document["malformed"]:
        click.echo(f"the record of token {one_line(damaged)} is damaged: revoke it", err=True)


@token.command()
@click.argument("token_id", metavar="ID")
@click.option("--force", is_flag=True, help="Also the operator's token, with which pallasctl itself asks.")
@gateway_options
def revoke(*, token_id: str, force: bool) -> None:
    """Revoke a token, at once: what was asked with it and is under way ends.

    The operator's own takes --force; `pallasctl gateway restart` makes a new one then.
    """
    asked = gateway()
    with _by_id(asked, token_id):
        asked.delete(f"{_PATH}/{quote(token_id, safe='')}{'?force=true' if force else ''}")
    click.echo(f"revoked {one_line(token_id)}")


@token.command()
@click.argument("token_id", metavar="ID")
@click.option(
    "--grace",
    metavar="TIME",
    default="0s",
    help="How long the old one counts on, as 1h [default: not at all].",
)
@output_option("text", "json")
@gateway_options
def rotate(*, token_id: str, grace: str, output: str) -> None:
    """Make a token like it in its place, and print it: it is shown this once."""
    asked = gateway()
    with _in_options(), _by_id(asked, token_id):
        made = asked.post(f"{_PATH}/{quote(token_id, safe='')}/rotate", {"grace": grace})
    _show_new(made, output)
    if output != "json":
        ends = made.get("old_expires")
        until = "counts no more" if ends is None else f"counts until {ends}"
        click.echo(one_line(f"The old one, {token_id}, {until}."), err=True)


@contextmanager
def _in_options() -> Iterator[None]:
    """What the gateway says of a field, in words of the command line."""
    try:
        yield
    except GatewayRefusedError as error:
        option = _OPTIONS.get(error.field or "")
        if option is None:
            raise
        said = error.message.removeprefix(f"{error.field}: ")
        raise GatewayRefusedError(error.status, f"{option}: {said}", field=error.field) from None


@contextmanager
def _by_id(asked: Gateway, token_id: str) -> Iterator[None]:
    """Tell who has named a token, instead of its id, which ids have that name."""
    try:
        yield
    except GatewayRefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        named = [entry["id"] for entry in asked.get(_PATH)["tokens"] if entry["name"] == token_id]
        if not named:
            raise
        message = f"{quoted(token_id)} is a name, and an id is wanted: {', '.join(named)}"
        raise GatewayRefusedError(error.status, message) from None


def _show_new(made: Mapping[str, Any], output: str) -> None:
    if output == "json":
        click.echo(terminal_json({key: made[key] for key in _SHOWN}))
        return
    who = f"agent {made['agent']}" if made["role"] == "agent" else "human"
    until = f"expires {made['expires']}" if made["expires"] is not None else "never expires"
    grants = ", ".join(made["grants"]) or "none: it calls no other agents"
    # The token alone is what a pipe gets.
    click.echo(one_line(made["token"]))
    click.echo(
        one_line(f"{made['id']}: token of {made['name']!r} ({who}), {until}; grants: {grants}"), err=True
    )
    click.echo(
        "This token is not shown again: keep it where secrets are kept, and send it as `Authorization: Bearer …`.",
        err=True,
    )


def _row(entry: Mapping[str, Any], now: datetime) -> list[Cell]:
    ends = "never"
    if entry["revoked"] is not None:
        ends = "revoked"
    elif entry["expires"] is not None:
        left = (datetime.fromisoformat(entry["expires"]) - now).total_seconds()
        ends = f"in {format_duration(left)}" if left > 0 else "expired"
    used = "-"
    if entry["last_used"] is not None:
        age = (now - datetime.fromisoformat(entry["last_used"])).total_seconds()
        used = f"{format_duration(age)} ago"
    return [
        Cell(one_line(entry["id"])),
        Cell(one_line(entry["name"])),
        Cell(one_line(entry["role"])),
        Cell(one_line(entry["agent"] or "-")),
        Cell(ends, "red" if ends in ("revoked", "expired") else None),
        Cell(used),
        Cell(one_line(", ".join(entry["grants"]) or "-")),
    ]
