"""Says at intervals that the event loop turns. Knows time; nothing of what the loop does, or of who listens."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_common.protocol.reports import Heartbeat, Report

MOMENTS = 8
"""Moments within an interval at which workers beat."""


async def beat(heart: Heartbeat, report: Callable[[Report], None]) -> None:
    """Report `heart` once an interval, until cancelled; the first time within one.

    All workers do so at moments that they have in common, so that the supervisor wakes up once for several of them;
    which one depends on when a worker was started, so that they do not all wake up at once.
    """
    step = heart.interval / MOMENTS
    now = asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(math.floor(now() / step) * step + heart.interval - now())
        report(heart)
