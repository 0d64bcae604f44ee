"""Large requests, of either surface, are checked beside the loop.

Knows loops; must not know what a request says, nor HTTP.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE = 64 * 1024
"""Bytes of a body from which on it is checked beside the loop: for some that takes seconds."""


async def beside[Result](size: int, check: Callable[[], Result]) -> Callable[[], Result]:
    """Gives, or raises, what `check` does, which for a large body runs in a thread: the loop goes on meanwhile."""
    if size < LARGE:
        return check
    checking = asyncio.get_running_loop().run_in_executor(None, check)
    await asyncio.wait((checking,))
    return checking.result
