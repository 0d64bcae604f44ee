"""The directory in which workers count: wiped at the start, slots handed out by generation, merged for a scrape.

Knows who writes which files and when nobody does any more; nothing of which series there are.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from pallas_registry.folding import fold, remove
from pallas_registry.logs import get_logger
from pallas_registry.merged_files import MergedFiles
from pallas_registry.metric_slots import FOLDED, file_name, parse_name, slot_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pallas_registry.exposition import Family
    from pallas_registry.merging import Merged
    from pallas_registry.metric_slots import SlotFile

_log = get_logger("pallas.supervisor.metrics")


class Slots:
    """Hands out slots and merges what was written to them.

    An agent has as many slots as it ever had live processes at once: one, and a second where an old worker drained
    beside a new one. Slots outlive processes, so that a restart goes on counting where the last process ended.
    Slots are handed out on the loop's thread; merging is for any thread.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for stale in directory.iterdir():
            remove(stale)
        self._agents: dict[str, str] = {}
        self._held: dict[str, dict[int, str]] = {}
        self._made = 0
        self._files = MergedFiles(directory)
        self._merging = threading.Lock()
        self._strangers: set[str] = set()
        self._told = False
        self._gone: set[str] = set()
        """Names of files that were removed, and may be another file's by now."""

    # --- who writes ---------------------------------------------------------------------------------------

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
        """Free the slot of a generation of which no process is left, and drop its gauges; all other values stay."""
        if (slot := self._held.get(agent, {}).pop(generation, None)) is None:
            return
        children = []
        with os.scandir(self.directory) as entries:
            ours = [entry for entry in entries if f"_{slot}." in entry.name]
        for entry in ours:
            if (named := parse_name(entry.name)) is None:
                continue
            if named.kind.startswith("gauge_live"):
                remove(Path(entry.path))
                self._gone.add(entry.name)
            elif named.child not in (None, FOLDED):
                children.append((entry.path, named))
        if children and self._merging.acquire(blocking=False):  # or else the next scrape does it
            try:
                self._fold(children)
            finally:
                self._merging.release()

    def remove(self, agent: str) -> None:
        """Drop all that an agent without a process ever wrote; only for one that leaves the deployment."""
        self._held.pop(agent, None)
        if (own := self._agents.pop(agent, None)) is not None:
            for path in self.directory.iterdir():
                name = path.name.removesuffix(".new").removesuffix(".damaged")
                named = parse_name(name)
                if (named is not None and named.agent == own) or path.match(f"{own}s*.lock"):
                    remove(path)

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

    # --- what was written ---------------------------------------------------------------------------------

    def families(self) -> list[Family]:
        """The merged series of all slots, as text."""
        return self._merge(self._files.families)

    def collect(self, names: Collection[str] = ()) -> list[Metric]:
        """The merged series of all slots as numbers, for other readers than scrapes.

        Args:
            names: the metrics that are wanted, a counter's without `_total`; all if empty.
        """
        return self._merge(lambda: [_metric(*found) for found in self._files.merged(names)])

    def _merge[T](self, make: Callable[[], T]) -> T:
        with self._merging:
            gone = {self._gone.pop() for _ in range(len(self._gone))}
            self._files.forget(gone)
            self._files.read(set(self._agents.values()))
            if self._fold(self._files.children):
                self._files.read(set(self._agents.values()))
            for name in self._files.strangers - self._strangers:
                _log.warning("%s in %s belongs to no agent: it is left out", name, self.directory)
            self._strangers = self._files.strangers
            return make()

    def _fold(self, children: Iterable[tuple[str, SlotFile]]) -> bool:
        """Take in what children of workers counted that have ended; whether there were any."""
        ended: dict[tuple[str, str], list[Path]] = defaultdict(list)
        for path, named in children:
            if not Path(f"/proc/{named.child}").exists():
                ended[named.slot, named.kind].append(Path(path))
        try:
            for (slot, kind), paths in ended.items():
                fold(kind, paths, self.directory / file_name(kind, slot, FOLDED))
        except OSError as error:
            if not self._told:
                _log.warning("what children of workers counted cannot be added up yet: %s", error)
            self._told = True
        else:
            self._told = False
        return bool(ended)


def _metric(family: Family, merged: Merged) -> Metric:
    metric = Metric(family.name, family.help, family.type)
    for (sample, labels), value in merged.items():
        metric.add_sample(sample, dict(labels), value)
    return metric
