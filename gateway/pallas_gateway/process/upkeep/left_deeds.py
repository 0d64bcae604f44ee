"""What a process had under way that was killed: the audit says who asked, and that nobody knows how it went."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.times import timestamp
from pallas_gateway.access.audit import AuditUnavailableError
from pallas_gateway.access.audit_reader import left_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_gateway.access.audit import Audit

AGAIN = 2.0
"""Seconds until it is tried again where the audit cannot be written."""

_log = get_logger("pallas.gateway.audit")


async def tell_left(audit: Audit, processes: Mapping[str, float], *, again: float = AGAIN) -> None:
    """Write a line `unknown` for each deed that these processes have begun and not ended.

    Args:
        processes: those that are dead, with when each began, in seconds since the epoch.
        again: seconds until what has failed is tried again.
    """
    if not processes:
        return
    since = {name: timestamp(began) for name, began in processes.items()}
    try:
        left = await asyncio.to_thread(left_by, audit.path, since)
    except OSError as error:
        _log.error(f"what was under way when the gateway was killed is not looked for: {error}")
        return
    for line in left:
        while True:
            try:
                audit.leave(line)
            except AuditUnavailableError:
                await asyncio.sleep(again)
            else:
                break
    if left:
        _log.warning(
            f"{len(left)} calls were under way when the gateway was killed: the audit has them as unknown"
        )
