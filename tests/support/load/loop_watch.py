"""How long a worker's loop stands: what an agent's module may hold to say so, and what it has said.

Knows loops alone. A process that asks from outside sees as well that the worker was not running at all, or that its own
turn came late; so CPU time of the loop's thread is told beside the time that passed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

WATCH = """
import asyncio, json, time
from pathlib import Path


async def _watch(file=Path(__file__).with_name("loop.json")):
    longest = {}
    while True:
        passed, cpu = time.monotonic(), time.thread_time()
        await asyncio.sleep(0.001)
        stood = {"passed": time.monotonic() - passed, "cpu": time.thread_time() - cpu}
        if not file.exists():
            longest = dict.fromkeys(stood, 0.0)
        if any(stood[name] > longest[name] for name in stood):
            longest = {name: max(stood[name], longest[name]) for name in stood}
            file.write_text(json.dumps(longest))


_watching = asyncio.get_running_loop().create_task(_watch())
"""
"""Goes at the end of an agent's module, which is imported in the worker's loop."""


@dataclass(frozen=True, slots=True)
class Stood:
    """The longest that the loop has stood, in seconds."""

    passed: float
    """As the clock tells it: also while other processes ran in its place."""
    cpu: float
    """Of its own thread's CPU time."""


def forget(agents: Path) -> None:
    """Count from here on, for the module in this folder."""
    (agents / "loop.json").unlink(missing_ok=True)


def longest(agents: Path) -> Stood:
    """Since it was forgotten, or since the start."""
    return Stood(**json.loads((agents / "loop.json").read_text()))
