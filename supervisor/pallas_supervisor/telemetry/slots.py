"""The directory in which workers count: wiped at the start, slots handed out by generation, merged for a scrape.

Knows who writes which files and when nobody does any more; nothing of which series there are.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from pallas_common.logs.setup import get_logger
from pallas_common.metrics.agent_series import Warnings
from pallas_common.metrics.exposition import Family, encoded, number, sample_prefix
from pallas_common.metrics.file_names import FOLDED, agent_of_file, file_name, slot_name
from pallas_common.metrics.fold import fold, remove, restore
from pallas_common.metrics.reader import MergedFiles
from pallas_common.metrics.served_series import LIVE_GAUGES, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pallas_common.metrics.file_names import SlotFile
    from pallas_common.metrics.merge import Merged
    from pallas_common.metrics.reader import Source

LEFT_OUT = "pallas_metric_series_left_out"
LEFT_OUT_HELP = "Series in the agent's metrics files that are not served: a warning in the log says why."

_log = get_logger("pallas.supervisor.metrics")


class Slots:
    """Hands out slots and merges what was written to them.

    An agent has as many slots as it ever had live processes at once: one, and a second where an old worker drained
    beside a new one. Slots outlive processes, so that a restart goes on counting where the last process ended.
    Slots are handed out on the loop's thread, where nothing is read; merging is for any thread, by one at a time.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for stale in directory.iterdir():
            remove(stale)
        self._agents: dict[str, str] = {}
        self._held: dict[str, dict[int, str]] = {}
        self._left: set[str] = set()
        """What names of slots of removed agents begin with."""
        self._leaving = False
        """Whether not all files have been removed of an agent that was."""
        self._made = 0
        self._files = MergedFiles(directory)
        self._merging = threading.Lock()
        self._told = False
        self._strangers = Warnings(None)
        self._counted: Mapping[str, int] = {}
        self._count = Family(LEFT_OUT, "gauge", LEFT_OUT_HELP, b"")
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
            held[generation] = slot = next(name for name in names if self._is_free(name, held))
            self._prepare(slot)
        return held[generation]

    def process_gone(self, agent: str, generation: int) -> None:
        """Free the slot of a generation of which no process is left, and drop its gauges; all other values stay."""
        if (slot := self._held.get(agent, {}).pop(generation, None)) is None:
            return
        for kind in LIVE_GAUGES:
            name = f"{kind}_{slot}.db"
            with suppress(OSError):  # it has none, or something is in its place that a scrape complains of
                (self.directory / name).unlink()
            self._gone.add(name)

    def remove(self, agent: str) -> None:
        """Drop all that an agent without a process ever wrote; only for one that leaves the deployment."""
        self._held.pop(agent, None)
        if (own := self._agents.pop(agent, None)) is not None:
            self._left.add(own)
            self._leaving = True

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
        """The merged series of all slots, as text, and how many are left out."""
        return self._merge(lambda: [*self._files.families(), *self._left_out()])

    def collect(self, names: Collection[str] = ()) -> list[Metric]:
        """The merged series of all slots as numbers, for other readers than scrapes.

        Args:
            names: the metrics that are wanted, a counter's without `_total`; all if empty.
        """
        return self._merge(lambda: [_metric(*found) for found in self._files.merged(names)])

    def _merge[T](self, make: Callable[[], T]) -> T:
        with self._merging:
            self._files.forget({self._gone.pop() for _ in range(len(self._gone))})
            self._read()
            if self._files.is_gone:
                self._make_directory()
            if self._fold(self._files.children):
                self._read()
            self._make_missing()
            self._sweep()
            return make()

    def _left_out(self) -> list[Family]:
        counts = self._files.left_out
        if counts is not self._counted:  # it is another one when there is something new
            lines = (
                f"{sample_prefix(LEFT_OUT, [('agent', agent)])}{number(float(count))}\n"
                for agent, count in counts.items()
            )
            self._counted, self._count = (
                counts,
                Family(LEFT_OUT, "gauge", LEFT_OUT_HELP, encoded("".join(lines))),
            )
        return [self._count] if counts else []

    def _read(self) -> None:
        agents = None
        while agents != (now := self._agents.copy()):  # an agent may leave meanwhile
            agents = now
            self._files.read({own: agent for agent, own in agents.items()}, self._live())

    def _live(self) -> set[str]:
        """Slots that a generation holds."""
        return {slot for held in list(self._held.values()) for slot in held.copy().values()}

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

    # --- what others remove -------------------------------------------------------------------------------

    def _prepare(self, slot: str) -> None:
        """Have what a slot's next writer goes on with, before it begins anew."""
        if self._merging.acquire(blocking=False):  # or else somebody is looking already
            try:
                self._make_directory()
                for source in self._files.of_slot(slot):
                    if not os.path.lexists(source.file.path) and source.named.kind not in LIVE_GAUGES:
                        self._make_again(source)
            finally:
                self._merging.release()

    def _make_directory(self) -> None:
        with suppress(OSError):  # the next scrape tries again, and says what is wrong
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _make_missing(self) -> None:
        """Write files anew that are missing, but for those of workers that live, which do so themselves."""
        live = self._live()
        for source in self._files.missing:
            if source.named.slot not in live or source.named.child is not None:
                self._make_again(source)

    def _make_again(self, source: Source) -> None:
        path = Path(source.file.path)
        try:
            restore(path, source.file)
        except OSError as error:
            source.agent.warn(f"missing {path}", f"{path} was removed, and cannot be made again: {error}")
        else:
            _log.warning("%s was removed: it is made again, as it was last read", path)

    def _sweep(self) -> None:
        """Remove files of agents that are gone, and name those of nobody."""
        found = self._files.strangers
        if self._leaving:
            self._leaving = False
            with suppress(OSError):
                found = {path.name for path in self.directory.iterdir()}
        for name in found:
            if agent_of_file(name) in self._left:
                with suppress(OSError):
                    remove(self.directory / name)
            elif name in self._files.strangers:
                message = (
                    f"{shown(name)} in {self.directory} belongs to no agent: it is left out of the metrics"
                )
                self._strangers.warn(name, message)


def _metric(family: Family, merged: Merged) -> Metric:
    metric = Metric(family.name, family.help, family.type)
    for (sample, labels), value in merged.items():
        metric.add_sample(sample, dict(labels), value)
    return metric
