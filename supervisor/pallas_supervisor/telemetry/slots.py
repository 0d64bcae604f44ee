"""Slots: the names under which the workers of an agent write their metrics, handed out by generation.

Knows which generation holds which slot, and the locks of the slots' writers; reads no metrics.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from typing import TYPE_CHECKING

from pallas_common.metrics.file_names import slot_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Slots:
    """The slots of all agents. For the loop's thread, but for `agents`, `live` and parking.

    An agent has as many slots as it ever had live processes at once: one, and a second where an old worker drained
    beside a new one. Slots outlive processes, so that a restart goes on counting where the last process ended.

    Args:
        directory: where the workers hold their locks.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._agents: dict[str, str] = {}
        self._held: dict[str, dict[int, str]] = {}
        self._made = 0
        self._parked: set[str] = set()

    @property
    def agents(self) -> dict[str, str]:
        """The agent by what the names of its slots begin with; without those whose files are put away."""
        return {own: agent for agent, own in self._agents.copy().items() if agent not in self._parked}

    @property
    def live(self) -> set[str]:
        """Slots that a generation holds."""
        return {slot for held in list(self._held.values()) for slot in held.copy().values()}

    def take(self, agent: str, generation: int) -> str:
        """The slot of one generation of an agent: the first one that no live process holds."""
        self._parked.discard(agent)
        if agent not in self._agents:
            self._made += 1
            self._agents[agent] = f"a{self._made}"
        held = self._held.setdefault(agent, {})
        if generation not in held:
            names = (slot_name(self._agents[agent], index) for index in itertools.count())
            held[generation] = next(name for name in names if self._is_free(name, held))
        return held[generation]

    def free(self, agent: str, generation: int) -> str | None:
        """Free the slot of a generation; None if it holds none."""
        held = self._held.get(agent, {})
        slot = held.pop(generation, None)
        if not held:  # or `live` would go through all agents that ever ran
            self._held.pop(agent, None)
        return slot

    def prefix(self, agent: str) -> str | None:
        """What the names of the agent's slots begin with, None if it has none."""
        return self._agents.get(agent)

    def is_parked(self, agent: str) -> bool:
        """Whether the agent has given up its slots until it takes one again."""
        return agent in self._parked

    def park(self, agent: str, slots: Iterable[str]) -> bool:
        """Give up an agent's slots for a while; False if a process may write one of these, or will soon."""
        held = self._held.get(agent, {})
        if held or not all(self._is_free(slot, held) for slot in slots):
            return False
        self._parked.add(agent)
        return True

    def unpark(self, agent: str) -> None:
        """It has its slots as before."""
        self._parked.discard(agent)

    def remove(self, agent: str) -> str | None:
        """Forget an agent; what the names of its slots begin with, None if it has none."""
        self._held.pop(agent, None)
        self._parked.discard(agent)
        return self._agents.pop(agent, None)

    def _is_free(self, slot: str, held: dict[int, str]) -> bool:
        """Whether the slot is free: no known generation holds it, and no unknown process has its lock."""
        if slot in held.values():
            return False
        try:
            lock = os.open(self._directory / f"{slot}.lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        return True
