"""The deployment whose store it is: a random id in one row, and in a file of the state directory.

Two deployments in one store would end each other's turns, and delete each other's threads and tokens. So the first that
opens a store makes it its own, and every other one is refused, before anything is changed. Which one is first is
decided in the transaction that makes the tables.

Knows a row and a file; must not know what else the store holds.
"""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import inspect, select, update

from pallas_common.problems import quoted
from pallas_common.protocol.gateway import INSTANCE_FILE
from pallas_common.secrets.private_files import read_line
from pallas_common.times import rfc3339
from pallas_gateway.store.deployment.private_files import write_line
from pallas_gateway.store.errors import StoreUnusableError
from pallas_gateway.store.tables import INSTANCE, insert_into
from pallas_gateway.store.tokens import now

if TYPE_CHECKING:
    import datetime as dt
    from pathlib import Path

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The deployment that a store belongs to, as the store tells it."""

    id: str
    deployment: str
    host: str
    seen: dt.datetime
    """When its gateway was there last."""

    def age(self) -> float:
        """Seconds since then."""
        return (now() - self.seen).total_seconds()

    def __str__(self) -> str:
        """For people; the names may be anybody's."""
        return (
            f"the deployment {quoted(self.deployment)} on {quoted(self.host)}, whose gateway was last seen at "
            f"{rfc3339(self.seen)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A deployment that opens a store."""

    deployment: str
    directory: Path
    """Its state directory."""

    @property
    def host(self) -> str:
        """The name of this machine."""
        return socket.gethostname()

    @property
    def id(self) -> str | None:
        """What its file says; None before it has opened a store."""
        return read_line(self.directory / INSTANCE_FILE) or None


def owner(connection: Connection) -> Owner | None:
    """The store's owner; None where it has none yet."""
    if not inspect(connection).has_table(INSTANCE.name):
        return None
    row = connection.execute(select(INSTANCE)).one_or_none()
    return None if row is None else Owner(id=row.id, deployment=row.deployment, host=row.host, seen=row.seen)


def claim(connection: Connection, claimant: Claimant) -> None:
    """Make a store the claimant's that is nobody's; to be called in the transaction that locks its schema.

    Raises:
        StoreUnusableError: it belongs to another deployment.
        StoreUnavailableError: the claimant's file cannot be written.
    """
    found, held = owner(connection), claimant.id
    if found is None:
        _own(connection, claimant, held or _new_id(claimant))
    elif found.id != held:
        raise StoreUnusableError(f"the store belongs to {found}, and {_refusal(claimant, held)}")


def see(connection: Connection, id_: str, claimant: Claimant) -> Owner | None:
    """Note that the owner is there; the other owner, if the store has become another deployment's."""
    found = owner(connection)
    if found is None or found.id != id_:
        return found
    connection.execute(
        update(INSTANCE)
        .where(INSTANCE.c.id == id_)
        .values(deployment=claimant.deployment, host=claimant.host, seen=now())
    )
    return None


def adopt(connection: Connection, claimant: Claimant) -> None:
    """Make a store the claimant's, whoever it belongs to, under a new id: who had it is refused from now on.

    Raises:
        StoreUnavailableError: the claimant's file cannot be written.
    """
    _own(connection, claimant, _new_id(claimant))


def _own(connection: Connection, claimant: Claimant, id_: str) -> None:
    moment = now()
    fields = {"id": id_, "deployment": claimant.deployment, "host": claimant.host, "seen": moment}
    connection.execute(
        insert_into(connection, INSTANCE)
        .values(number=1, created=moment, **fields)
        .on_conflict_do_update(index_elements=[INSTANCE.c.number], set_=fields)
    )


def _new_id(claimant: Claimant) -> str:
    """A new id, in the claimant's file. A file without its row makes a store the claimant's that has none."""
    id_ = secrets.token_hex(16)
    write_line(claimant.directory / INSTANCE_FILE, id_)
    return id_


def _refusal(claimant: Claimant, held: str | None) -> str:
    lacks = (
        f"{claimant.directory} has no file {INSTANCE_FILE!r}"
        if held is None
        else f"{claimant.directory / INSTANCE_FILE} names another one"
    )
    return (
        f"this is {quoted(claimant.deployment)} on {quoted(claimant.host)} ({lacks}): name a database of its own as "
        "`store` of `gateway:`. If the store is this deployment's, because its state directory was lost, or it was "
        "restored or moved, `pallas store adopt` takes it over"
    )
