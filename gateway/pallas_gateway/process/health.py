"""How it is with the gateway: what stands in its way, in words, told to the supervisor whenever it changes.

Knows whom to ask. Each of them answers from what it knows already, so that asking costs next to nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pallas_common.protocol.reports import HealthReport
from pallas_common.times import ago

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pallas_common.protocol.reports import Report
    from pallas_gateway.http.app import Status

    type Problem = Callable[[], str | None]
    """What is wrong with a part and what to do about it; None if nothing is."""

INTERVAL = 1.0
"""Seconds between two looks."""


class Health:
    """What is wrong with the parts of the gateway, all in one."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems

    def status(self) -> Status:
        """`degraded`: something is wrong, and what can be answered all the same is answered; never waits."""
        return _status(self._message())

    def _message(self) -> str | None:
        return "; ".join(said for problem in self._problems if (said := problem()) is not None) or None

    async def run(self, report: Callable[[Report], None]) -> None:
        """Report it now, and then each change, until cancelled."""
        told: tuple[str | None] | None = None
        while True:
            message = self._message()
            if told != (message,):
                told = (message,)
                report(HealthReport(status=_status(message), timestamp=ago(), message=message))
            await asyncio.sleep(INTERVAL)


def _status(message: str | None) -> Status:
    return "ok" if message is None else "degraded"
