"""A fault campaign: one fleet, faults drawn from a seed, and what has to hold after each of them.

Knows how the fleet is set up and looked at; which faults there are is in `faults`. The same seed draws the same
faults with the same choices; when exactly they hit is the machine's.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import httpx

from support.faults.clock import JumpingClock
from support.faults.orders import Orders
from support.faults.small_disk import small_disk
from support.fleet.deployment import Deployment, make_deployment
from support.fleet.fleet import BIN, KEEPER, Fleet
from support.fleet.log_reader import LogReader
from support.fleet.process_tree import await_end, descendants, marked, open_descriptors, proportional_memory
from support.load.counted_calls import CountedCalls
from support.ports import free_ports

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from support.fleet.process_tree import Seen

PATIENCE = 180.0
"""Seconds within which everything has to be in order again after a fault, however busy the machine is."""

CONTROL_PATIENCE = 20.0
"""Seconds within which the control API has to answer, whatever is going on."""

LOOK_INTERVAL = 0.03

LIVENESS = {"liveness_interval": 0.5, "liveness_misses": 6}

MARK = "PALLAS_TEST_CAMPAIGN"

AGENTS = ("alpha", "beta", "gamma", "delta", "late", "own")
"""beta needs alpha, gamma needs beta and follows it; late has short time-outs; own is exec'd, the rest is forked."""

LEAVES = ("gamma", "delta", "late", "own")
"""Agents that no other one needs."""


class CampaignError(AssertionError):
    """Something did not hold; the message tells what, after which fault, and how to see it again."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. `cause` makes it happen and returns the agents that it may touch.

    Args:
        weight: how often it is drawn, beside once for certain; 0 for kinds that take long.
    """

    name: str
    cause: Callable[[Campaign], Collection[str]]
    weight: int = 1


@dataclass(slots=True)
class Outcome:
    """One fault that happened."""

    fault: str
    touched: tuple[str, ...]
    seconds: float
    """From the fault's end until everything was in order again."""
    memory: int
    """Bytes (PSS) of the supervisor after it."""


@dataclass
class Campaign:
    """One fleet under fire, as a context.

    Args:
        directory: a folder to be made.
        flood: bytes that a flood of output has.
        brood: grandchildren that a worker makes when it is told to multiply.
    """

    directory: Path
    seed: int
    flood: int = 100_000_000
    brood: int = 40
    rng: random.Random = field(default_factory=random.Random)
    outcomes: list[Outcome] = field(default_factory=list)

    # --- set-up -------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.directory.mkdir()
            self.log_disk = stack.enter_context(small_disk(self.directory / "log", 128))
            self.runtime_disk = stack.enter_context(small_disk(self.directory / "run", 32))
            self.clock = JumpingClock(self.directory)
            stack.callback(self.clock.close)
            self.deployment = self._deploy()
            (self.spare_port,) = free_ports(1)
            environment = {**self.clock.environment, MARK: str(self.directory)}
            environment["PALLAS_RUNTIME_DIR"] = str(self.runtime_disk.path)
            environment["PALLAS_LOG_FILE"] = str(self.log_disk.path / "pallas.log")
            self.fleet = Fleet(self.deployment, env=environment)
            self.fleet.runtime = self.runtime_disk.path
            self.fleet.log_file = self.log_disk.path / "pallas.log"
            stack.callback(self._nothing_is_left)
            stack.enter_context(self.fleet)
            self.fleet.wait()
            self.log = LogReader(self.fleet.log_file)
            self._descriptors = self._supervisor_descriptors()
            self.calls = stack.enter_context(CountedCalls(self.deployment))
            self.control = stack.enter_context(_ControlWatch(self.fleet))
            self._await_order((), None)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def _deploy(self) -> Deployment:
        defaults = {
            "reset_after": 0.05,
            "start_timeout": 90,
            "stop_timeout": 3,
            "max_failures": 1000,  # on a busy machine the short time-outs of `late` run out several times
            **LIVENESS,
        }
        deployment = make_deployment(self.directory / "fleet", defaults=defaults)
        self.orders = Orders(deployment)
        self.orders.add("alpha")
        self.orders.add("beta", depends_on=["alpha"])
        self.orders.add("gamma", depends_on=["beta"], on_dependency_loss="restart")
        self.orders.add("delta")
        self.orders.add("late", depends_on=["alpha"], start_timeout=4, stop_timeout=1)
        self.orders.add("own", python=str(BIN / "python"))
        return deployment

    def _nothing_is_left(self) -> None:
        left = marked(str(self.directory))
        assert not left, "left after the supervisor's end: " + "; ".join(map(str, left))

    # --- what faults need ---------------------------------------------------------------------------------

    def pid(self, agent: str) -> int:
        """The agent's worker."""
        pid = self.fleet.agent(agent)["pid"]
        assert isinstance(pid, int)
        return pid

    def kill(self, agent: str) -> None:
        """SIGKILL the agent's worker, and wait for its end: until then it counts as one in order."""
        pid = self.pid(agent)
        os.kill(pid, signal.SIGKILL)
        self.await_death(pid)

    def await_death(self, pid: int) -> None:
        """Wait until a process has ended."""
        if not await_end(pid, PATIENCE):
            raise CampaignError(f"process {pid} did not end within {PATIENCE:g} s")

    # --- the campaign -------------------------------------------------------------------------------------

    def run(self, faults: Collection[Fault], count: int) -> Iterator[Outcome]:
        """Cause so many faults, each kind at least once if there are enough, and check everything after each.

        Raises:
            CampaignError: something did not hold.
        """
        for number, fault in enumerate(draw(faults, count, self.seed)):
            self.rng = random.Random(f"{self.seed}/{number}")
            try:
                outcome = self._cause(fault)
            except Exception as error:
                text = f"seed {self.seed}, fault {number + 1} of {count}, {fault.name}: {error}\n"
                raise CampaignError(text + self._last_records()) from error
            self.outcomes.append(outcome)
            yield outcome

    def _last_records(self) -> str:
        """What the supervisor said of late, and what went wrong elsewhere."""
        lines = [
            f"{record['time']} {record['level']} {record['message']}"
            for record in self.fleet.written()
            if record["logger"].startswith("pallas.supervisor") or record["level"] in ("WARNING", "ERROR")
        ]
        return "\n".join(lines[-60:])

    def _cause(self, fault: Fault) -> Outcome:
        before = self.fleet.pids()
        touched = tuple(fault.cause(self))
        begun = time.monotonic()
        self._await_order(touched, before)
        return Outcome(
            fault=fault.name,
            touched=touched,
            seconds=time.monotonic() - begun,
            memory=proportional_memory(self.fleet.pid),
        )

    def _await_order(self, touched: Collection[str], before: dict[str, int | None] | None) -> None:
        deadline = time.monotonic() + PATIENCE
        while problems := self._disorder():
            if time.monotonic() > deadline:
                raise CampaignError(f"not in order within {PATIENCE:g} s: " + "; ".join(problems))
            time.sleep(LOOK_INTERVAL)  # processes and descriptors have no event for us
        problems = self.calls.problems() + self.log.problems() + self.control.problems()
        if before is not None:
            problems += [
                f"{agent} was not touched, but its worker {before[agent]} is now {pid}"
                for agent, pid in self.fleet.pids().items()
                if agent not in touched and before.get(agent) != pid
            ]
        if problems:
            raise CampaignError("; ".join(problems[:20]))

    def _disorder(self) -> list[str]:
        """What is not (yet) as it has to be at rest."""
        agents = self.fleet.status()["agents"]
        found = [f"{a['name']} is {a['state']} ({a['message']})" for a in agents if a["state"] != "ready"]
        found += [f"{a['name']} is being replaced" for a in agents if a["replacement"] is not None]
        found += [f"{a['name']} runs on old {a['outdated']}" for a in agents if a["outdated"]]
        failed = [a["name"] for a in agents if a["state"] in ("failed", "stopped")]
        if failed:
            raise CampaignError("; ".join(found))
        workers = {agent["pid"]: agent["name"] for agent in agents}
        seen = descendants(self.fleet.pid)
        zygotes = [process for process in seen if process.title.startswith("pallas-zygote")]
        if len(zygotes) != 1:
            found.append(f"{len(zygotes)} zygotes")
        spares = [process for process in seen if process.title.startswith("pallas-spare")]
        if len(spares) > 1:
            found.append(f"{len(spares)} workers forked ahead")
        keepers = [process for process in seen if KEEPER in process.title]
        if len(keepers) != 1:
            found.append(f"{len(keepers)} keepers")
        expected = {*workers, *(process.pid for process in (*zygotes, *spares, *keepers))}
        found += [f"unexpected: {process}" for process in seen if process.pid not in expected]
        found += [f"a zombie: {process}" for process in seen if process.zombie]
        found += self._missing(workers, seen)
        found += self._leaked()
        return found

    @staticmethod
    def _missing(workers: dict[int, str], seen: list[Seen]) -> list[str]:
        alive = {process.pid for process in seen}
        return [f"{name} has no process {pid}" for pid, name in workers.items() if pid not in alive]

    def _leaked(self) -> list[str]:
        more = self._supervisor_descriptors() - self._descriptors
        return [f"{count} descriptors more: {kind}" for kind, count in more.items()]

    def _supervisor_descriptors(self) -> Counter[str]:
        kinds = open_descriptors(self.fleet.pid)
        for kind in list(kinds):  # the merge keeps those that it has read; only removed ones would be leaks
            if kind.endswith(".db"):
                del kinds[kind]
        return kinds


def draw(faults: Collection[Fault], count: int, seed: int) -> list[Fault]:
    """So many faults: every kind once, then by weight, in a random order."""
    rng = random.Random(seed)
    kinds = list(faults)
    drawn = rng.sample(kinds, min(count, len(kinds)))
    drawn += rng.choices(kinds, [kind.weight for kind in kinds], k=count - len(drawn))
    rng.shuffle(drawn)
    return drawn


class _ControlWatch:
    """Asks the control API for the status all the time, on a connection of its own for each question."""

    def __init__(self, fleet: Fleet) -> None:
        self._path = str(fleet.runtime / "control.sock")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._problems: list[str] = []
        self.slowest = 0.0
        self.asked = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(CONTROL_PATIENCE + 1)

    def problems(self) -> list[str]:
        return list(self._problems)

    def _watch(self) -> None:
        transport = httpx.HTTPTransport(uds=self._path)
        with httpx.Client(transport=transport, base_url="http://pallas", timeout=CONTROL_PATIENCE) as client:
            while not self._stopping.wait(0.1):
                asked = time.monotonic()
                try:
                    answer = client.get("/v1/status", headers={"connection": "close"})
                    if answer.status_code != 200:
                        self._problems.append(f"the control API answered {answer.status_code}: {answer.text}")
                except httpx.HTTPError as error:
                    self._problems.append(f"the control API did not answer: {error!r}")
                self.asked += 1
                self.slowest = max(self.slowest, time.monotonic() - asked)
