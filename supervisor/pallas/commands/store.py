"""The verb `store`, with what is done to the gateway's store while the gateway cannot: `store adopt`.

Knows what is asked and said; what happens is the gateway's, which is loaded when it is needed.
"""

from __future__ import annotations

import getpass
import os
import pwd
from typing import TYPE_CHECKING

import click

from pallas_common.terminal_text import terminal_line
from pallasctl.failures import Failure
from pallasctl.groups import LazyGroup
from pallasctl.options import supervisor_options

if TYPE_CHECKING:
    from pathlib import Path

    from pallas_gateway.process.adoption import Adoption
    from pallas_gateway.store.deployment.instance import Owner

RECENT = 120.0
"""Seconds: a gateway that was seen so lately may still be there."""


@click.group(cls=LazyGroup, verbs={"adopt": "pallas.commands.store"})
def store() -> None:
    """Look after the gateway's store while the gateway cannot."""


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--store", "named", metavar="STORE", help="As in agents.yaml [default: the deployment's].")
@supervisor_options
def adopt(*, yes: bool, named: str | None) -> None:
    """Take over a store that belongs to another deployment.

    A store belongs to the deployment that opened it first; the gateway of every other one refuses it. It is yours
    to take where its state directory was lost, or where you have moved or restored it. Whoever had it is shut out.

    Exit status: 0 the store is this deployment's, 1 it is not.
    """
    from pallas_gateway.access.audit import AuditUnavailableError
    from pallas_gateway.store.errors import StoreError

    try:
        adoption = _adoption(named)
        owner = adoption.owner()
        if owner is None:
            click.echo("the store belongs to nobody yet: the gateway that opens it first makes it its own")
            return
        if adoption.is_own(owner):
            click.echo("the store is this deployment's already")
            return
        _tell(adoption, owner)
        if not yes:
            click.confirm("Take it over?", abort=True, err=True)
        adoption.carry_out(owner, getpass.getuser())
    except (StoreError, AuditUnavailableError) as error:
        raise Failure(str(error)) from error
    click.echo("the store is this deployment's now; run `pallasctl gateway restart`, where the gateway runs")


def _adoption(named: str | None) -> Adoption:
    """Raises a failure where it is not told which store is meant, or where it is another user's to take."""
    from pallas_common.problems import ConfigurationError
    from pallas_gateway.process.adoption import Adoption
    from pallas_registry.environment.state_directory import ensure_private
    from pallas_supervisor.agents.gateway.spec import store_of
    from pallasctl.verbs.gateway.database import store_place

    place = store_place()
    state = place.state_directory
    if state is None or place.deployment is None:
        raise Failure(
            "which deployment is meant? no supervisor answers and there is no agents.yaml here; cd to its folder"
        )
    _refuse_others(state)
    try:
        ensure_private(state)
    except ConfigurationError as error:
        raise Failure("; ".join(map(str, error.problems))) from error
    return Adoption(store_of(named or place.store, state), place.deployment, state)


def _refuse_others(state: Path) -> None:
    """Raises a failure if the directory is another user's: what is written there has to be the gateway's to read."""
    if not state.exists() or (uid := state.stat().st_uid) == os.geteuid():
        return
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"uid {uid}"
    raise Failure(f"{state} belongs to {user}: run this as {user}")


def _tell(adoption: Adoption, owner: Owner) -> None:
    claimant = adoption.claimant
    lines = [
        f"The store belongs to {owner}.",
        f"This is {claimant.deployment} on {claimant.host}, with the state directory {claimant.directory}.",
        "Its tokens and threads become this deployment's, and that one's gateway cannot use it any more.",
    ]
    if owner.age() < RECENT:
        lines.append(f"That gateway was there {owner.age():.0f} s ago and may still run: stop it first.")
    for line in lines:
        click.echo(terminal_line(line), err=True)
