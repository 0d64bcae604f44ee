"""The directory in which workers count: wiped at the start, read and merged for a scrape, mended where files are gone.

Knows which files belong to whom, and when they are written no more; nothing of which series there are.
"""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from pallas_common.logs.setup import get_logger
from pallas_common.metrics.agent_series import Warnings
from pallas_common.metrics.exposition import Family, encoded, number, sample_prefix
from pallas_common.metrics.file_names import agent_of_file
from pallas_common.metrics.fold import fold_ended, remove, restore
from pallas_common.metrics.reader import MergedFiles
from pallas_common.metrics.served_series import LIVE_GAUGES, shown
from pallas_supervisor.telemetry.parking import add_late, bring_back, put_away
from pallas_supervisor.telemetry.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pallas_common.metrics.merge import Merged
    from pallas_common.metrics.reader import Source

LEFT_OUT = "pallas_metric_series_left_out"
LEFT_OUT_HELP = "Series in the agent's metrics files that are not served: a warning in the log says why."

_log = get_logger("pallas.supervisor.metrics")


class MetricsStore:
    """What all workers counted. Slots are handed out on the loop's thread; merging is for any thread, one at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.parked = directory.with_name(f"{directory.name}-idle")
        """Beside it: what idle agents have counted."""
        for made in (directory, self.parked):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
            for stale in made.iterdir():
                remove(stale)
        self._slots = Slots(directory)
        self._files = MergedFiles(directory)
        self._merging = threading.Lock()
        self._warnings = Warnings(None)
        self._cannot_fold = False
        self._idle: dict[str, threading.Lock] = {}
        """Agents without a process, until they take a slot; each lock is held while its files are put away."""
        self._cannot_park = False
        self._late: set[str] = set()
        """What names of slots begin with whose counts could not be brought back in time."""
        self._left: set[str] = set()
        """What names of slots of removed agents begin with."""
        self._leaving = False
        """Whether not all files have been removed of an agent that was."""
        self._gone: set[str] = set()
        """Names of files that were removed, and may be another file's by now."""

    # --- who writes ---------------------------------------------------------------------------------------

    def slot(self, agent: str, generation: int) -> str:
        """The slot of one generation of an agent, with all files that its next writer goes on with."""
        live = self._slots.live
        with self._idle.pop(agent, None) or nullcontext():
            was_parked = self._slots.is_parked(agent)
            slot = self._slots.take(agent, generation)
            if was_parked:
                self._bring_back(agent)
        if slot not in live and self._merging.acquire(
            blocking=False
        ):  # or else another thread is looking already
            try:
                self._make_directory()
                for source in self._files.of_slot(slot):
                    if not os.path.lexists(source.file.path) and source.named.kind not in LIVE_GAUGES:
                        self._make_again(source)
            finally:
                self._merging.release()
        return slot

    def process_gone(self, agent: str, generation: int) -> None:
        """Free the slot of a generation of which no process is left, and drop its gauges; all other values stay."""
        if (slot := self._slots.free(agent, generation)) is None:
            return
        for kind in LIVE_GAUGES:
            name = f"{kind}_{slot}.db"
            with suppress(OSError):  # it has none, or something is in its place that a scrape complains of
                (self.directory / name).unlink()
            self._gone.add(name)

    def idle(self, agent: str) -> None:
        """The agent has no process any more: what it has counted leaves the directory until its next slot.

        That happens before the next merge; an agent's code may have written so much that it takes a moment.
        """
        if self._slots.prefix(agent) is not None:
            self._idle.setdefault(agent, threading.Lock())

    def remove(self, agent: str) -> None:
        """Drop all that an agent without a process ever wrote; only for one that leaves the deployment."""
        with self._idle.pop(agent, None) or nullcontext():
            own = self._slots.remove(agent)
        if own is not None:
            self._left.add(own)
            self._leaving = True
            self._late.discard(own)
            with suppress(OSError):
                self._archive(own).unlink(missing_ok=True)

    # --- what was written ---------------------------------------------------------------------------------

    def families(self) -> list[Family]:
        """The merged series of all slots, as text, and how many are left out."""
        return self._merge(lambda: [*self._files.families(), *_left_out(self._files.left_out)])

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
            if self._fold():
                self._read()
            self._make_missing()
            if self._add_late() | self._park():
                self._read()
            self._sweep()
            return make()

    def _read(self) -> None:
        agents = None
        while agents != (now := self._slots.agents):  # an agent may leave meanwhile
            agents = now
            self._files.read(now, self._slots.live)

    def _fold(self) -> bool:
        """Take in what children of workers counted that have ended; whether there were any."""
        try:
            folded = fold_ended(self._files.children)
        except OSError as error:
            if not self._cannot_fold:
                _log.warning(f"what children of workers counted cannot be added up yet: {error}")
            folded = self._cannot_fold = True
        else:
            self._cannot_fold = False
        return folded

    # --- idle agents --------------------------------------------------------------------------------------

    def _archive(self, own: str) -> Path:
        return self.parked / f"{own}.zip"

    def _park(self) -> bool:
        """Put away what agents have counted that have become idle; whether there were any."""
        waiting = {
            agent: lock for agent, lock in self._idle.copy().items() if not self._slots.is_parked(agent)
        }
        if not waiting:
            return False
        files: dict[str, list[Path]] = {}
        with suppress(OSError):
            for path in self.directory.iterdir():
                if (own := agent_of_file(path.name)) is not None:
                    files.setdefault(own, []).append(path)
        parked = False
        for agent, lock in waiting.items():
            with lock:
                own = self._slots.prefix(agent)
                if own is not None and self._idle.get(agent) is lock:
                    parked |= self._put_away(agent, own, files.get(own, []))
        return parked

    def _put_away(self, agent: str, own: str, files: list[Path]) -> bool:
        locks = [path for path in files if path.suffix == ".lock"]
        if own in self._late or not self._slots.park(agent, [path.stem for path in locks]):
            return False
        values = [path for path in files if path.suffix == ".db"]
        try:
            # Who reads meanwhile knows by the slots that the agent is gone, and takes no file for one that is missing.
            done = put_away(values, self._archive(own))
            for path in locks if done else ():
                path.unlink(missing_ok=True)
        except OSError as error:
            if not self._cannot_park:
                _log.warning(f"what idle agents have counted stays in {self.directory}: {error}")
            done = False
            self._cannot_park = True
        else:
            self._cannot_park = False
        if not done:
            self._slots.unpark(agent)
        return done

    def _bring_back(self, agent: str) -> None:
        """Have the files again in which an agent counts, before its process is there."""
        if (own := self._slots.prefix(agent)) is None:
            return
        try:
            bring_back(self._archive(own), self.directory)
        except OSError as error:
            self._late.add(own)
            _log.warning(f"{agent}: what it has counted so far is added later: {error}", agent=agent)

    def _add_late(self) -> bool:
        """Add what could not be brought back in time; whether there was any."""
        late = self._late.copy()
        for own in late:
            with suppress(OSError):  # the next scrape tries again
                add_late(self._archive(own), self.directory)
                self._late.discard(own)
        return bool(late)

    # --- what others remove -------------------------------------------------------------------------------

    def _make_directory(self) -> None:
        with suppress(OSError):  # the next scrape tries again, and says what is wrong
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _make_missing(self) -> None:
        """Write files anew that are missing, but for those of workers that live, which do so themselves."""
        live = self._slots.live
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
            _log.warning(f"{path} was removed: it is made again, as it was last read")

    def _sweep(self) -> None:
        """Remove files of agents that are gone, and name those of no agent."""
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
                self._warnings.warn(name, message)


def _left_out(counts: dict[str, int]) -> list[Family]:
    lines = (
        f"{sample_prefix(LEFT_OUT, [('agent', agent)])}{number(float(count))}\n"
        for agent, count in counts.items()
    )
    return [Family(LEFT_OUT, "gauge", LEFT_OUT_HELP, encoded("".join(lines)))] if counts else []


def _metric(family: Family, merged: Merged) -> Metric:
    metric = Metric(family.name, family.help, family.type)
    for (sample, labels), value in merged.items():
        metric.add_sample(sample, dict(labels), value)
    return metric
