"""The supervisor's series of each agent that change only when something happens to it, as text that is kept until then.

Knows names, labels and how a line looks; nothing of where the facts come from.

Why not metrics of prometheus_client: some 35 lines an agent, made anew for each scrape, are 0.2 s of a core for 1,000
agents, and its counters of one agent take 12 KiB. Of an idle agent only that is said which says something.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pallas_common.metrics.agent_info import HEALTH, HEALTH_HELP, HEALTH_VALUES, INFO, INFO_HELP
from pallas_common.metrics.exposition import Family, encoded, number, sample_prefix
from pallas_common.metrics.merge import format_bound
from pallas_supervisor.lifecycle.states import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pallas_common.protocol.reports import Status
    from pallas_supervisor.lifecycle.states import Agent
    from pallas_supervisor.telemetry.process_metrics import WorkerProcess

RESTART_REASONS = (
    "crash",
    "dependency",
    "memory",
    "oom",
    "operator",
    "reload",
    "start_timeout",
    "unhealthy",
)
"""Counted from 0, so that an alert sees the first one. The machine may know more."""

START_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_BOUNDS = tuple(format_bound(bound) for bound in (*START_BUCKETS, float("inf")))

STATE = "pallas_worker_state"
RESTARTS = "pallas_worker_restarts"
STARTS = "pallas_worker_start_seconds"
MAX_RUNNING = "pallas_calls_max_running"
MAX_WAITING = "pallas_calls_max_waiting"
LOST = "pallas_log_lines_lost"
UNREADABLE = "pallas_reports_unreadable"

_FAMILIES = (
    (INFO, "gauge", INFO_HELP),
    (HEALTH, "gauge", HEALTH_HELP),
    (STATE, "gauge", "1 for the state in which the agent's worker is."),
    (RESTARTS, "counter", "Starts of a worker after its first one, by reason."),
    (STARTS, "histogram", "Time from the spawn of a worker until it is ready, in seconds."),
    (MAX_RUNNING, "gauge", "Turns of the agent that may run at once: its max_concurrency."),
    (MAX_WAITING, "gauge", "Turns of the agent that may wait for a place: its max_queue."),
    (
        LOST,
        "counter",
        (
            "Log lines that reached no log, by reason: flood (more came from the agent than is taken in),"
            " disk (it was full, or too slow)."
        ),
    ),
    (UNREADABLE, "counter", "Lines of the agent's workers to the supervisor that are none of its reports."),
)
"""Name, type and help."""


class ScrapeFacts(Protocol):
    """What a scrape needs to know of the agents."""

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents as they are."""

    @property
    def ports(self) -> Mapping[str, int | None]:
        """Their ports; None for one without."""

    @property
    def processes(self) -> Iterable[WorkerProcess]:
        """Every live worker."""

    @property
    def zygote_pid(self) -> int | None:
        """The process that workers are forked from."""

    @property
    def health(self) -> Mapping[str, Status]:
        """The agents' health."""

    @property
    def memory(self) -> Mapping[str, tuple[int, int]]:
        """Bytes taken and allowed, of each agent with a `memory_limit`."""

    @property
    def call_bounds(self) -> Mapping[str, tuple[int, int]]:
        """Each agent's `max_concurrency` and `max_queue`."""

    @property
    def lost_lines(self) -> Mapping[tuple[str, str], int]:
        """Log lines that were lost so far, by agent and reason."""

    @property
    def unreadable_reports(self) -> Mapping[str, int]:
        """Lines of each agent's workers that are no report."""


class _Counts:
    """Starts of one agent's workers: restarts by reason, and how long each start took."""

    __slots__ = ("buckets", "restarts", "seconds", "version")

    def __init__(self) -> None:
        self.restarts: dict[str, int] = {}
        self.buckets: array[int] | None = None
        """How many starts took at most so long and longer than the bound before; None until one was."""
        self.seconds = 0.0
        self.version = 0


class _Standing(NamedTuple):
    """All that an agent's lines are made of."""

    state: State
    port: int | None
    health: Status
    bounds: tuple[int, int] | None
    lost: tuple[tuple[str, int], ...]
    unreadable: int
    counted: int


class AgentLines:
    """The lines of all agents. Counted on the loop's thread, read by one scrape at a time."""

    def __init__(self, facts: ScrapeFacts) -> None:
        self._facts = facts
        self._counts: dict[str, _Counts] = {}
        self._versions = itertools.count(1)  # of all agents: one that is added again is not as it was
        self._kept: dict[str, tuple[_Standing, tuple[bytes, ...]]] = {}

    def count_restart(self, agent: str, reason: str) -> None:
        """A worker is started again."""
        counts = self._of(agent)
        counts.restarts[reason] = counts.restarts.get(reason, 0) + 1
        counts.version = next(self._versions)

    def observe_start(self, agent: str, seconds: float) -> None:
        """A worker has become ready."""
        counts = self._of(agent)
        if counts.buckets is None:
            counts.buckets = array("Q", bytes(8 * len(_BOUNDS)))
        counts.buckets[bisect_left(START_BUCKETS, seconds)] += 1
        counts.seconds += seconds
        counts.version = next(self._versions)

    def forget(self, agent: str) -> None:
        """The agent has been removed; one of its name begins anew."""
        self._counts.pop(agent, None)

    def families(self) -> list[Family]:
        """All of them; of an agent to which nothing has happened, the text that was made before."""
        lost: dict[str, tuple[tuple[str, int], ...]] = {}
        for (name, reason), lines in self._facts.lost_lines.items():
            lost[name] = (*lost.get(name, ()), (reason, lines))
        found = {}
        for name, standing in self._standings(lost):
            known = self._kept.get(name)
            if known is None or known[0] != standing:
                known = standing, self._lines(name, standing)
            found[name] = known
        self._kept = found
        columns = (
            zip(*(lines for _, lines in found.values()), strict=True) if found else ((),) * len(_FAMILIES)
        )
        of_all = {LOST: _lost("", lost.get("", ()))}
        return [
            Family(*family, of_all.get(family[0], b"") + b"".join(column))
            for family, column in zip(_FAMILIES, columns, strict=True)
        ]

    def _standings(self, lost: Mapping[str, tuple[tuple[str, int], ...]]) -> Iterator[tuple[str, _Standing]]:
        facts = self._facts
        ports, healths, bounds = facts.ports, facts.health, facts.call_bounds
        unreadable = facts.unreadable_reports
        for name, agent in dict(facts.agents).items():
            if name not in ports or name not in healths:  # a reload is under way beside this thread
                continue
            counts = self._counts.get(name)
            yield (
                name,
                _Standing(
                    agent.state,
                    ports[name],
                    healths[name],
                    bounds.get(name),
                    lost.get(name, ()),
                    unreadable.get(name, 0),
                    0 if counts is None else counts.version,
                ),
            )

    def _of(self, agent: str) -> _Counts:
        if (counts := self._counts.get(agent)) is None:
            counts = self._counts[agent] = _Counts()
        return counts

    def _lines(self, name: str, agent: _Standing) -> tuple[bytes, ...]:
        idle = agent.state is State.IDLE
        counts = self._counts.get(name)
        states: Iterable[str] = (agent.state,) if idle else State
        lost = tuple(found for found in agent.lost if found[1] or not idle)
        own = [("agent", name)]
        port = "" if agent.port is None else str(agent.port)
        return (
            _line(INFO, [*own, ("port", port)], 1),
            _line(HEALTH, own, HEALTH_VALUES[agent.health]),
            b"".join(_line(STATE, [*own, ("state", state)], state == agent.state) for state in states),
            b"" if counts is None else _restarts(name, counts, idle=idle),
            b"" if counts is None or idle else _starts(name, counts),
            b"" if agent.bounds is None or idle else _line(MAX_RUNNING, own, agent.bounds[0]),
            b"" if agent.bounds is None or idle else _line(MAX_WAITING, own, agent.bounds[1]),
            _lost(name, lost),
            b"" if idle and not agent.unreadable else _line(f"{UNREADABLE}_total", own, agent.unreadable),
        )


def _restarts(name: str, counts: _Counts, *, idle: bool) -> bytes:
    found = counts.restarts.copy()
    if counts.buckets is not None and not idle:
        found = {**dict.fromkeys(RESTART_REASONS, 0), **found}
    return b"".join(
        _line(f"{RESTARTS}_total", [("agent", name), ("reason", reason)], count)
        for reason, count in found.items()
    )


def _starts(name: str, counts: _Counts) -> bytes:
    if counts.buckets is None:
        return b""
    own = [("agent", name)]
    totals = list(itertools.accumulate(counts.buckets))
    buckets = (
        _line(f"{STARTS}_bucket", [*own, ("le", bound)], total)
        for bound, total in zip(_BOUNDS, totals, strict=True)
    )
    count, seconds = _line(f"{STARTS}_count", own, totals[-1]), _line(f"{STARTS}_sum", own, counts.seconds)
    return b"".join((*buckets, count, seconds))


def _lost(name: str, lost: Iterable[tuple[str, int]]) -> bytes:
    return b"".join(
        _line(f"{LOST}_total", [("agent", name), ("reason", reason)], lines) for reason, lines in lost
    )


def _line(sample: str, labels: list[tuple[str, str]], value: float) -> bytes:
    return encoded(f"{sample_prefix(sample, labels)}{number(float(value))}\n")
