"""The end of an instance: shut down, its connections closed, and taken apart.

fast-agent's agents, LLMs and connections hold each other in cycles. Left to Python's collector, they stay, with all
that was said, until it looks through everything that is alive: with 100 calls under way, 60 ms and more in which the
loop stands. Taken apart here, an instance goes at once, but for some 70 small objects; these are collected while little
else is alive.

Knows fast-agent's public names; must not know calls.
"""

from __future__ import annotations

import functools
import gc
import weakref
from typing import TYPE_CHECKING, Any

from pallas_common.logs.setup import get_logger
from pallas_worker.raised import contained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fast_agent.core.fastagent import AgentInstance

    from pallas_worker.downstreams.reachability import Attachments

SOME = 16
"""Instances whose remains are worth a collection."""
FEW = 32
"""Instances alive up to which one is short, at some 0.6 ms for each; it waits until twice as many have ended."""
IDLE = 16
"""Instances alive up to which what is there belongs to the process and hardly to calls."""
SETTLING = 2
"""Calls that load what all later ones need: classes that are made where they are first used, most of all."""
RARELY = 30
"""Collections of younger objects until Python looks through everything by itself: what tools leave must go, too."""

_log = get_logger("pallas.worker.runtime")


async def shut_down(instances: Iterable[AgentInstance], attachments: Attachments) -> None:
    """Shut the agents down, then close all connections: also those of agents whose making was cut short."""
    for dispose in (
        *(instance.shutdown for instance in instances),
        *(aggregator.close for aggregator in reversed(attachments.aggregators)),
        *(client.aclose for client in tuple(attachments.clients or ())),  # again, it does nothing
    ):
        try:
            with contained():
                await dispose()
        except Exception as error:  # noqa: BLE001 - what else there is must be disposed of, too
            _log.warning("a part of an instance could not be disposed of: %r", error)


def note_parts(factory: Callable[..., Any]) -> Callable[..., Any]:
    """fast-agent's way to make LLMs of one model, which notes each one and its agent for `take_apart`.

    Each LLM passes here, also those of the clones of agents that are tools.
    """

    @functools.wraps(factory)
    def make(agent: Any = None, context: Any = None, **options: Any) -> Any:
        llm = factory(agent=agent, context=context, **options)
        attachments: Attachments | None = getattr(context, "pallas_attachments", None)
        if attachments is not None and agent is not None:
            attachments.asked += (weakref.ref(llm), weakref.ref(agent))
        return llm

    return make


def take_apart(instances: Iterable[AgentInstance], attachments: Attachments) -> None:
    """Empty what was shut down, so that it goes with its last reference; nobody may use it any more."""
    agents = (agent for instance in instances for agent in instance.agents.values())
    for part in (*(reference() for reference in attachments.asked), *agents, *attachments.aggregators):
        getattr(part, "__dict__", {}).clear()
    for client in tuple(attachments.clients or ()):
        state = getattr(client, "__dict__", {})
        for name in state.keys() - {"_state"}:  # which the end of the object itself asks for
            del state[name]


class Garbage:
    """Counts ended instances, and collects what is left of them when that is cheap."""

    def __init__(self) -> None:
        self._ended = 0
        self._settling = SETTLING

    def add(self, alive: int) -> None:
        """One more has ended, and so many are alive; of some, this takes the time of a collection."""
        self._ended += 1
        if not gc.isenabled():
            return
        if self._settling and alive <= IDLE:
            self._settling -= 1
            self._collect()
            gc.freeze()  # what the first calls have loaded is there to stay, and may take 40 ms to look through
        elif self._ended >= max(SOME, 2 * alive) and alive <= FEW:
            self._collect()

    def _collect(self) -> None:
        self._ended = 0
        gc.collect()


def collect_rarely() -> None:
    """Let Python look through everything only now and then by itself, in this process."""
    youngest, middle, _ = gc.get_threshold()
    gc.set_threshold(youngest, middle, RARELY)
