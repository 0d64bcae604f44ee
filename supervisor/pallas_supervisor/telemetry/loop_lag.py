"""How late the supervisor's event loop comes to what is due: the first sign that something holds it up.

Knows the loop's clock and a histogram.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL = 1.0
"""Seconds between two looks."""


class LoopLag:
    """Looks once a second how late it is.

    Args:
        observe: takes the seconds.
    """

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to look; for the running loop."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + INTERVAL, self._look, loop)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._timer is not None
        self._observe(loop.time() - self._timer.when())
        self.start()
