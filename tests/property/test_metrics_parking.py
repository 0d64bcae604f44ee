"""No count is lost or said twice while agents become idle and are woken, whatever kills writers or fills the disk."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from pallas_common.metrics.exposition import TEXT, page
from pallas_supervisor.telemetry import parking
from pallas_supervisor.telemetry.store import MetricsStore

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

AGENTS = ("research", "jarvis")
agents = st.sampled_from(AGENTS)


class Parking(RuleBasedStateMachine):
    """Agents that count, die, are idle and wake."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="pallas-parking-")
        self.store = MetricsStore(Path(self.folder.name, "metrics"))
        self.counted = dict.fromkeys(AGENTS, 0)
        self.generation = dict.fromkeys(AGENTS, 0)
        self.writing: dict[str, Any] = {}
        self.idle: set[str] = set()
        self.late: set[str] = set()
        self.full = False

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(agent=agents, calls=st.integers(1, 5), labels=st.integers(1, 40))
    def call(self, agent: str, calls: int, labels: int) -> None:
        """Count something, in a new process where there is none."""
        self.wake(agent)
        file = self.writing[agent]
        for number in range(labels):
            key = mmap_key("calls", "calls_total", ["agent", "n"], [agent, str(number)], "Calls.")
            file.write_value(key, file.read_value(key)[0] + calls, 0.0)
        self.counted[agent] += calls * labels

    def wake(self, agent: str) -> None:
        """Start its process."""
        if agent in self.writing:
            return
        self.generation[agent] += 1
        with self.disk():
            slot = self.store.slot(agent, self.generation[agent])
        path = self.store.directory / f"counter_{slot}.db"
        if self.full and not path.exists():
            self.late.add(agent)
        self.writing[agent] = MmapedDict(str(path))  # type: ignore[no-untyped-call]
        self.idle.discard(agent)

    @rule(agent=agents, becomes_idle=st.booleans())
    def kill(self, agent: str, *, becomes_idle: bool) -> None:
        """SIGKILL: whatever is mapped is in the file, and nothing is closed in order."""
        if self.writing.pop(agent, None) is not None:
            self.store.process_gone(agent, self.generation[agent])
            if becomes_idle:
                self.store.idle(agent)
                self.idle.add(agent)

    @rule(full=st.booleans())
    def fill_the_disk(self, *, full: bool) -> None:
        self.full = full

    @rule(agent=agents)
    def call_at_once(self, agent: str) -> None:
        """A call comes before anybody has looked at the agent as an idle one."""
        self.kill(agent, becomes_idle=True)
        self.call(agent, 1, 1)

    def disk(self) -> AbstractContextManager[object]:
        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        return patch.object(parking, "write_reserved", refuse) if self.full else nullcontext()

    def scrape(self) -> dict[str, float]:
        with self.disk():
            text = page(self.store.families(), TEXT).decode()
        if not self.full:
            self.late.clear()
        totals: dict[str, float] = {}
        for line in text.splitlines():
            if line.startswith("calls_total"):
                agent = line.partition('agent="')[2].partition('"')[0]
                totals[agent] = totals.get(agent, 0) + float(line.rpartition(" ")[2])
        return totals

    @invariant()
    def everything_is_counted_once(self) -> None:
        totals = self.scrape()
        for agent in AGENTS:
            if agent in self.late:
                continue
            if agent in self.idle:
                assert agent not in totals
            else:
                assert totals.get(agent, 0) == self.counted[agent]


TestParking = Parking.TestCase
TestParking.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
