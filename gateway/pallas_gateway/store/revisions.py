"""Counters of changes, by which a process notices what another one has changed: two gateways overlap in a replacement.

A counter that is different means a change, whatever the direction: a backup may have been restored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select

from pallas_gateway.store.tables import REVISIONS, insert_into

if TYPE_CHECKING:
    from sqlalchemy import Connection


def revision(connection: Connection, topic: str) -> int:
    """How often what the topic stands for has changed, of all tenants together; one look-up by the key."""
    total = func.coalesce(func.sum(REVISIONS.c.revision), 0)
    return int(connection.execute(select(total).where(REVISIONS.c.topic == topic)).scalar_one())


def count_change(connection: Connection, tenant: str, topic: str) -> None:
    """Count a change, in the transaction that makes it.

    In PostgreSQL, changes of one topic wait here for each other until they are committed: do it last.
    """
    connection.execute(
        insert_into(connection, REVISIONS)
        .values(tenant=tenant, topic=topic, revision=1)
        .on_conflict_do_update(
            index_elements=[REVISIONS.c.tenant, REVISIONS.c.topic],
            set_={"revision": REVISIONS.c.revision + 1},
        )
    )
