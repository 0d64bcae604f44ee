"""What the supervisor's tests put in the place of the world: a clock that they move, processes that they end.

`FakeProcesses` also notes what the engine must never ask for, such as a second process of an agent.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pallas_supervisor.agents.engine import Engine
from pallas_supervisor.lifecycle.dependencies import Graph
from pallas_supervisor.lifecycle.states import Agent, Policy, WorkerId

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from pallas_supervisor.processes.worker import Worker


class FakeLoop:
    """The part of an event loop that the engine uses, on a clock that only `advance` moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.now + delay, callback, args, self)  # type: ignore[arg-type]  # has what is used of a loop
        heapq.heappush(self._timers, (handle.when(), next(self._numbers), handle))
        return handle

    def call_soon(self, callback: Callable[..., object], *args: object, **_: object) -> None:
        callback(*args)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]  # has what is used of a loop

    def call_exception_handler(self, context: Mapping[str, Any]) -> None:
        raise context["exception"]

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that is due within it."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                self.now = max(self.now, when)
                handle._run()
        self.now = end

    def run(self, coroutine: Coroutine[Any, Any, None]) -> Driven:
        """Run a coroutine as far as it gets; `Driven.go_on` after something has happened."""
        return Driven(coroutine)


class Driven:
    """A coroutine that awaits futures of a `FakeLoop`."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine = coroutine
        self._awaited: asyncio.Future[Any] | None = None
        self.done = False
        self.go_on()

    def go_on(self) -> None:
        while not self.done and (self._awaited is None or self._awaited.done()):
            try:
                self._awaited = self._coroutine.send(None)
            except StopIteration:
                self.done = True


@dataclass
class FakeProcess:
    """One start of an agent, as the outside world sees it."""

    name: str
    generation: int
    spawned: bool = False
    serving: bool = False
    dead: bool = False
    asked: set[str] = field(default_factory=set)


class FakeProcesses:
    """The engine's `Processes`; does nothing by itself and refuses what must not be asked."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, int], FakeProcess] = {}
        self.calls: list[tuple[str, str, int]] = []
        self.reasons: list[str | None] = []
        """Of all kills."""
        self.workers: dict[WorkerId, Worker] = {}
        """The real ones, as a launcher knows them: none."""
        self.broken: list[str] = []
        """Promises that the engine has broken. It survives a failing driver, so raising would not do."""

    def of(self, name: str) -> list[FakeProcess]:
        """The agent's processes, the newest first."""
        found = [process for process in self.live.values() if process.name == name]
        return sorted(found, key=lambda process: -process.generation)

    def newest(self, name: str) -> FakeProcess:
        return self.of(name)[0]

    def remove(self, process: FakeProcess) -> None:
        del self.live[process.name, process.generation]

    def insist(self, kept: bool, promise: str) -> None:
        if not kept:
            self.broken.append(promise)

    def worker(self, worker_id: WorkerId) -> Worker | None:
        return self.workers.get(worker_id)

    def spawn(self, worker_id: WorkerId) -> None:
        name, generation = worker_id
        self.calls.append(("spawn", name, generation))
        others = self.of(name)
        self.insist(len(others) <= 1, f"{name} is spawned a third time beside {others}")
        for other in others:
            beside = other.serving or other.asked or other.dead
            self.insist(bool(beside), f"{name} is spawned again beside {other}, which does not serve")
        self.insist(worker_id not in self.live, f"{name} {generation} is spawned twice")
        self.live[worker_id] = FakeProcess(name, generation)

    def terminate(self, worker_id: WorkerId) -> None:
        self._note("terminate", worker_id)

    def kill(self, worker_id: WorkerId, reason: str | None = None) -> None:
        self.reasons.append(reason)
        self._note("kill", worker_id)

    def reap(self, worker_id: WorkerId) -> None:
        self._note("reap", worker_id)
        process = self.live.get(worker_id)
        self.insist(process is not None and process.dead, f"{worker_id.name} is reaped while it lives")

    def _note(self, what: str, worker_id: WorkerId) -> None:
        name, generation = worker_id
        self.calls.append((what, name, generation))
        process = self.live.get(worker_id)
        self.insist(process is not None, f"{what} of {name} {generation}, of which nothing is left")
        if process is not None:
            process.asked.add(what if process.spawned else f"{what} too early")

    def took(self) -> list[tuple[str, str, int]]:
        """The calls since the last time."""
        assert not self.broken
        taken, self.calls = self.calls, []
        return taken


def make_engine(
    dependencies: Mapping[str, Iterable[str]],
    policies: Mapping[str, Policy] | None = None,
    *,
    rng: random.Random | None = None,
) -> tuple[Engine, FakeProcesses, FakeLoop]:
    """An engine on a fake clock, whose processes are the test's."""
    loop, processes = FakeLoop(), FakeProcesses()
    rules = policies or {name: Policy() for name in dependencies}
    with patch("asyncio.get_running_loop", return_value=loop):
        engine = Engine(processes, Graph(dependencies), rules, rng)
    return engine, processes, loop


def agent(**changes: Any) -> Agent:
    """An agent in any situation."""
    return Agent(**{"name": "research", "policy": Policy(), **changes})
