"""Who probes what workers have in common: one worker at a time, and the others hear of it. Pure.

Knows targets by names that mean nothing here. A worker that hears nothing for too long probes by itself, so whatever
is lost here costs a probe more and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from pallas_common.protocol.notices import LONGEST_ERROR, LONGEST_TARGET, MOST_TARGETS, Notice, ProbeResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pallas_supervisor.lifecycle.states import WorkerId

    type Send = Callable[[WorkerId, Notice], None]


@dataclass(slots=True)
class _Target:
    holder: WorkerId
    """Whose turn it is."""
    watchers: dict[WorkerId, None] = field(default_factory=dict)
    """All who want to hear of it, the holder included, in the order in which they came."""
    newest: ProbeResult | None = None


class SharedProbes:
    """The targets of all live workers.

    Args:
        send: tells a worker something; may fail to reach it.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._targets: dict[str, _Target] = {}

    def watch(self, worker: WorkerId, targets: Iterable[str]) -> None:
        """A worker wants to hear of these targets: it does at once, or it is to probe them itself."""
        results: list[ProbeResult] = []
        turns: list[str] = []
        room = MOST_TARGETS - sum(worker in target.watchers for target in self._targets.values())
        for name in islice((name for name in targets if len(name) <= LONGEST_TARGET), max(room, 0)):
            target = self._targets.get(name)
            if target is None:
                target = self._targets[name] = _Target(worker)
                turns.append(name)
            elif target.newest is not None:
                results.append(target.newest)
            target.watchers[worker] = None
        self._tell(worker, results, turns)

    def take(self, worker: WorkerId, results: Iterable[ProbeResult]) -> None:
        """A worker has probed: the others that watch the same hear of it, and the turn stays, or becomes, its own.

        It was not its turn if the one that has it was silent for too long.
        """
        news: defaultdict[WorkerId, list[ProbeResult]] = defaultdict(list)
        turns: list[str] = []
        for result in results:
            target = self._targets.get(result.target)
            if target is None or worker not in target.watchers:
                continue
            result = _bounded(result)
            target.newest = result
            if target.holder != worker:
                target.holder = worker
                turns.append(result.target)
            for other in target.watchers:
                if other != worker:
                    news[other].append(result)
        for other, heard in news.items():
            self._tell(other, heard, [])
        self._tell(worker, [], turns)

    def leave(self, worker: WorkerId) -> None:
        """A worker is gone: its turns go to others."""
        turns: defaultdict[WorkerId, list[str]] = defaultdict(list)
        for name, target in list(self._targets.items()):
            if worker not in target.watchers:
                continue
            del target.watchers[worker]
            if not target.watchers:
                del self._targets[name]
            elif target.holder == worker:
                target.holder = next(iter(target.watchers))
                turns[target.holder].append(name)
        for heir, names in turns.items():
            self._tell(heir, [], names)

    def _tell(self, worker: WorkerId, results: list[ProbeResult], turns: list[str]) -> None:
        if results or turns:
            self._send(worker, Notice(results=tuple(results), turns=tuple(turns)))


def _bounded(result: ProbeResult) -> ProbeResult:
    """The result as it is kept and passed on: with texts of the length that workers give them."""
    error = None if result.error is None else result.error[:LONGEST_ERROR]
    return replace(result, error=error, checked=result.checked[:LONGEST_TARGET])
