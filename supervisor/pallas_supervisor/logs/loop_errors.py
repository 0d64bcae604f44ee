"""Errors that the event loop reports, without a repetition of one a thousand times a second.

Knows asyncio's error contexts; nothing of what failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

INTERVAL = 10.0
"""Seconds in which a full table of descriptors is reported once."""


class LoopErrors:
    """An exception handler for a loop. Whatever is not an `accept` that found no descriptor left passes through.

    asyncio tries as often as the backlog is long, and reports it each time.
    """

    def __init__(self) -> None:
        self._reported = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle one report."""
        if str(context.get("message", "")).startswith("socket.accept() out of system resource"):
            if loop.time() < self._reported + INTERVAL:
                return
            self._reported = loop.time()
        loop.default_exception_handler(context)
