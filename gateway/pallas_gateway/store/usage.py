"""How much each owner keeps, which the database counts itself, and whether there is room for more.

What several processes write at a time is counted together. Knows the counters alone; what they count, and in which
bytes, is in the migration that made them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, select

from pallas_common.sizes import describe_size
from pallas_gateway.store.errors import StorageExceededError
from pallas_gateway.store.tables import USAGE

if TYPE_CHECKING:
    from sqlalchemy import Connection

_OF_OWNER = select(USAGE.c.bytes).where(
    USAGE.c.tenant == bindparam("tenant_"), USAGE.c.owner == bindparam("owner_")
)
_OF_TENANT = select(func.coalesce(func.sum(USAGE.c.bytes), 0)).where(USAGE.c.tenant == bindparam("tenant_"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many bytes may be kept; None for as many as there are."""

    owner: int | None = None
    tenant: int | None = None
    """By all owners of a tenant together."""


UNBOUNDED = Room()


def kept_by(connection: Connection, *, tenant: str, owner: str) -> int:
    """The bytes that an owner keeps."""
    return int(connection.execute(_OF_OWNER, {"tenant_": tenant, "owner_": owner}).scalar_one_or_none() or 0)


def check_room(connection: Connection, room: Room, *, tenant: str, owner: str) -> None:
    """Refuse a change that has left no room; to be called last in its transaction, which is undone then.

    In PostgreSQL, changes that are committed at the same moment may go past it together, each by what it adds.

    Raises:
        StorageExceededError: more is kept than may be.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")  # counts what has been changed so far
    if room.owner is not None and kept_by(connection, tenant=tenant, owner=owner) > room.owner:
        raise StorageExceededError(
            f"there is no room: one principal's threads may take {describe_size(room.owner)} (`storage` of"
            " `gateway.limits`); nothing was kept: delete threads, or say less at a time"
        )
    if room.tenant is not None:
        together = int(connection.execute(_OF_TENANT, {"tenant_": tenant}).scalar_one())
        if together > room.tenant:
            raise StorageExceededError(
                f"there is no room: all threads together may take {describe_size(room.tenant)} (`tenant_storage` of"
                " `gateway.limits`); nothing was kept: delete threads, or ask the operator for more"
            )
