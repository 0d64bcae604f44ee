"""The directory in which workers count: wiped at the start, one slot an agent, merged for a scrape.

Knows prometheus_client's multiprocess files; nothing of which series there are.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

_log = logging.getLogger("pallas.supervisor.metrics")


class Slots(Collector):
    """Hands out slots and merges what was written to them.

    A slot outlives its agent's processes, so that a restart goes on counting where the last process ended. Slot
    names are letters and digits, because prometheus_client takes files apart at underscores.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for stale in directory.iterdir():
            stale.unlink()
        self._slots: dict[str, str] = {}
        self._made = 0
        self._warned: set[str] = set()

    def slot(self, agent: str) -> str:
        """The agent's slot, made at the first call."""
        if agent not in self._slots:
            self._made += 1
            self._slots[agent] = f"a{self._made}"
        return self._slots[agent]

    def process_gone(self, agent: str) -> None:
        """Drop the gauges of a process that is gone; counters and histograms stay."""
        mark_process_dead(self.slot(agent), str(self.directory))  # type: ignore[no-untyped-call]

    def remove(self, agent: str) -> None:
        """Drop all that an agent without a process ever wrote; only for one that leaves the deployment."""
        if (slot := self._slots.pop(agent, None)) is not None:
            for file in self._files(slot):
                file.unlink(missing_ok=True)
            (self.directory / f"{slot}.lock").unlink(missing_ok=True)

    def _files(self, slot: str) -> Iterable[Path]:
        yield from self.directory.glob(f"*_{slot}.db")
        yield from self.directory.glob(f"*_{slot}.p*.db")

    def collect(self) -> Iterable[Metric]:
        """The merged series of all slots."""
        while True:
            files = [str(file) for slot in list(self._slots.values()) for file in self._files(slot)]
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
