"""The directory in which workers count: wiped at the start, slots handed out by generation, merged for a scrape.

Knows prometheus_client's multiprocess files; nothing of which series there are.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from pallas_registry.metric_slots import parse_name, slot_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

_log = logging.getLogger("pallas.supervisor.metrics")


class Slots(Collector):
    """Hands out slots and merges what was written to them.

    An agent has as many slots as it ever had live processes at once: one, and a second where an old worker drained
    beside a new one. Slots outlive processes, so that a restart goes on counting where the last process ended.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for stale in directory.iterdir():
            if stale.is_dir() and not stale.is_symlink():
                shutil.rmtree(stale)
            else:
                stale.unlink()
        self._agents: dict[str, str] = {}
        self._held: dict[str, dict[int, str]] = {}
        self._made = 0
        self._warned: set[str] = set()

    def slot(self, agent: str, generation: int) -> str:
        """The slot of one generation of an agent: the first one that no live process holds."""
        if agent not in self._agents:
            self._made += 1
            self._agents[agent] = f"a{self._made}"
            self._held[agent] = {}
        held = self._held[agent]
        if generation not in held:
            names = (slot_name(self._agents[agent], index) for index in itertools.count())
            held[generation] = next(name for name in names if self._is_free(name, held))
        return held[generation]

    def process_gone(self, agent: str, generation: int) -> None:
        """Free the slot of a generation that is gone, and drop its gauges; counters and histograms stay."""
        if (slot := self._held.get(agent, {}).pop(generation, None)) is not None:
            mark_process_dead(slot, str(self.directory))  # type: ignore[no-untyped-call]

    def remove(self, agent: str) -> None:
        """Drop all that an agent without a process ever wrote; only for one that leaves the deployment."""
        self._held.pop(agent, None)
        if (own := self._agents.pop(agent, None)) is not None:
            for file in self._files({own}):
                file.unlink(missing_ok=True)
            for lock in self.directory.glob(f"{own}s*.lock"):
                lock.unlink(missing_ok=True)

    def _is_free(self, slot: str, held: dict[int, str]) -> bool:
        """Whether nobody holds the slot: no generation that we know of, and no process that we do not."""
        if slot in held.values():
            return False
        try:
            lock = os.open(self.directory / f"{slot}.lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        return True

    def _files(self, agents: set[str]) -> Iterable[Path]:
        for file in self.directory.iterdir():
            if (parsed := parse_name(file.name)) is not None and parsed.agent in agents:
                yield file

    def collect(self) -> Iterable[Metric]:
        """The merged series of all slots."""
        while True:
            files = [str(file) for file in self._files(set(self._agents.values()))]
            readable = [file for file in files if self._is_readable(file)]
            try:
                return list(MultiProcessCollector.merge(readable))  # type: ignore[no-untyped-call]
            except FileNotFoundError:  # an agent was removed beside this thread
                continue

    def _is_readable(self, file: str) -> bool:
        """A file cut short would fail the whole scrape; leave it out and say so once."""
        try:
            if Path(file).stat().st_size >= 8:
                return True
        except OSError:
            return False
        if file not in self._warned:
            self._warned.add(file)
            _log.warning("%s is no metrics file, it is left out", file)
        return False
