"""A deployment whose processes are killed while people talk to it, and the waiting until all is there again.

Knows the supervisor's word of who is ready; what has to hold then is in `kept`.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from fakes.downstream import run_downstream
from fakes.llm_stub import run_llm_stub
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, door, with_gateway
from support.gateway.load import UNLIMITED
from support.gateway.turns.kept import check_database, check_thread, messages
from support.gateway.turns.talkers import Script, Talkers
from support.worker.conversation.llm import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fakes.llm_stub import Asked, Turn
    from fakes.loopback import Fault, Recorded
    from support.gateway.door import Door
    from support.gateway.postgres import Postgres

type Victim = Literal["worker", "gateway", "backend", "postgres"]

AGENT = "talker"
FORGIVEN = 2
"""Failures in a row of the gateway behind which it is restarted: the next one would be answered later and later."""
MOST_EVENTS = 40
"""Of each talker, between two kills, behind the first turn."""


@dataclass
class Killing:
    """Everything that is there, and what was seen."""

    fleet: Fleet
    caller: Door
    talkers: Talkers
    script: Script
    store: str
    postgres: Postgres | None
    random: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    _forget: list[Any] = field(default_factory=list)

    def once(self, victim: Victim) -> float:
        """Talk, kill at a moment that is drawn, wait until all is there again, and look at what changed since.

        Returns:
            Seconds from the kill until everything was there and in order.
        """
        self.talkers.go_on()
        self.talkers.until_more(self.random.randrange(1, MOST_EVENTS * len(self.talkers.all)))
        began = time.monotonic()
        self._kill(victim)
        self.kills[victim] += 1
        self.talkers.pause()
        self._recovered()
        self.check(newest=True)
        seconds = time.monotonic() - began
        for what in self._forget:
            what.clear()
        return seconds

    def check(self, *, newest: bool = False) -> Counter[str]:
        """Look at all threads, or at the newest of each talker; how many turns ended in which way."""
        kinds = Counter[str]()
        found: dict[str, list[dict[str, Any]]] = {}
        for talker in self.talkers.all:
            for thread, turns in talker.threads[-newest:]:
                self.fleet.await_that(lambda thread=thread: self._is_settled(thread), "nothing is pending")  # type: ignore[misc]
                found[thread] = messages(self.caller, thread)
                kinds += check_thread(found[thread], turns, self.script.histories)
        check_database(self.store, found)
        return kinds

    def _is_settled(self, thread: str) -> bool:
        return all(item["status"] != "pending" for item in messages(self.caller, thread))

    def _kill(self, victim: Victim) -> None:
        match victim:
            case "worker":
                self.fleet.kill(AGENT)
            case "gateway":
                before = self.fleet.status()["gateway"]["pid"]
                os.kill(before, signal.SIGKILL)
                self.fleet.await_that(
                    lambda: self._gateway("pid") not in (before, None), "there is another gateway"
                )
            case "backend":
                assert self.postgres is not None
                self.postgres.kill_backend("pallas-gateway", self.random)
            case "postgres":
                assert self.postgres is not None
                self.postgres.kill()
                self.postgres.start()

    def _recovered(self) -> None:
        self.fleet.wait(AGENT)
        await_gateway(self.fleet)
        if self._gateway("failures") >= FORGIVEN:
            restarted = self.fleet.ctl("gateway", "restart")
            assert restarted.returncode == 0, restarted.stderr
        self.fleet.await_that(lambda: self._gateway("health") == "ok", "the gateway is well")

    def _gateway(self, what: str) -> Any:
        return (self.fleet.status().get("gateway") or {}).get(what)


@contextlib.contextmanager
def killing(
    folder: Path, *, talkers: int, seed: int, postgres: Postgres | None = None, delay: float = 0.01
) -> Iterator[Killing]:
    """A deployment with a worker, a gateway and a store, and so many who talk to it.

    Args:
        postgres: running; None for SQLite, whose process is the gateway.
        delay: seconds between two pieces of the model's.
    """
    script = Script(delay)
    with (
        conversing(folder, answer=script, postgres=postgres) as running,
        Talkers(running.caller, AGENT, talkers) as talking,
    ):
        made = Killing(
            running.fleet, running.caller, talking, script, running.store, postgres, random.Random(seed)
        )
        made._forget += running.recorded
        yield made


@dataclass
class Conversing:
    """A deployment that one may talk to, with a provider's stand-in and a server with tools behind it."""

    fleet: Fleet
    caller: Door
    store: str
    """The address of the gateway's store."""
    recorded: list[list[Any]]
    """What the stand-ins have recorded; may be cleared."""


@contextlib.contextmanager
def conversing(
    folder: Path,
    *,
    answer: Callable[[Asked], Turn],
    fault: Callable[[Recorded], Fault | None] | None = None,
    postgres: Postgres | None = None,
) -> Iterator[Conversing]:
    """Run a worker that is restarted as often as it dies, a gateway and a store, until the block ends.

    Args:
        answer: what the provider says.
        fault: what happens to requests to the provider.
        postgres: running; None for SQLite, whose process is the gateway.
    """
    with run_llm_stub(answer=answer, fault=fault) as llm, run_downstream() as tools:
        deployment = make_deployment(folder)
        deployment.servers = {"tools": {"transport": "http", "url": tools.url}}
        deployment.settings = {
            "default_model": "openai.stub-model",
            "openai": {"api_key": KEY, "base_url": llm.openai_url},
            "llm_retries": 0,
        }
        deployment.add(
            AGENT,
            "default_model",
            servers=("tools",),
            max_failures=100_000,
            reset_after=1,
            max_concurrency=64,
        )
        more = {} if postgres is None else {"store": postgres.new_database()}
        with_gateway(deployment, limits=UNLIMITED, max_failures=100_000, **more)
        with Fleet(deployment) as fleet:
            fleet.wait()
            await_gateway(fleet)
            yield Conversing(
                fleet,
                door(fleet),
                more.get("store") or f"sqlite:{fleet.state / 'gateway.db'}",
                [llm.asked, llm.loopback.requests, tools._loopback.requests],
            )
