"""An agent that can count what calls might leave behind in its process, and readers of that count.

Knows asyncio, logging and /proc; must not know how a worker disposes of a call.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx2
import psutil

from pallas_worker.agent.runtime import WARM
from support.worker.project import call, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.worker.process import RunningWorker

PATIENCE = 180.0
"""Seconds after which a failing test stops to wait."""

AGENT = '''
import asyncio
import collections
import gc
import json
import logging
import threading

from fast_agent import FastAgent

fast = FastAgent("tests")


async def census() -> str:
    """Count what calls might leave behind."""
    gc.collect()
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    running = [task.get_coro() for task in asyncio.all_tasks()]
    kinds = collections.Counter(getattr(coro, "__qualname__", type(coro).__name__) for coro in running)
    filters = sum(len(entry.filters) for entry in loggers if isinstance(entry, logging.Logger))
    handlers = sum(len(entry.handlers) for entry in loggers if isinstance(entry, logging.Logger))
    counts = {"filters": filters, "handlers": handlers, "threads": threading.active_count()}
    return "CENSUS" + json.dumps({"counts": counts, "tasks": kinds}) + "CENSUS"


@fast.agent(name="demo", instruction="You do as you are told.", servers=SERVERS, function_tools=[census])
async def demo(): ...
'''
ASK = "CALL census {}"
"""What makes the LLM stub take a census."""
ASK_PASSTHROUGH = "***CALL_TOOL census {}"
"""What makes the passthrough model take one."""


def agent(servers: list[str]) -> str:
    """The module of an agent with these servers."""
    return AGENT.replace("SERVERS", repr(servers))


@dataclass(frozen=True, slots=True)
class Census:
    """What there is in a worker at one moment."""

    tasks: Counter[str]
    counts: dict[str, int]

    def more_than(self, other: Census, slack: int) -> list[str]:
        """What there is more of than in the other, by more than the slack."""
        mine = self.counts | {"tasks": self.tasks.total()}
        its = other.counts | {"tasks": other.tasks.total()}
        grown = [f"{name}: {its[name]} -> {n}" for name, n in mine.items() if n > its[name] + slack]
        return [*grown, f"{self.tasks - other.tasks}"] if grown else []


def take(worker: RunningWorker, ask: str = ASK) -> Census:
    """Ask the agent, and look at its process from outside."""
    answer = text(call(worker.url, "auto", "demo", message=ask))
    assert "CENSUS" in answer, answer
    told = json.loads(answer.split("CENSUS")[1].replace("\\", ""))
    process = psutil.Process(worker.process.pid)
    outside = {"descriptors": process.num_fds(), "children": len(process.children(recursive=True))}
    return Census(Counter(told["tasks"]), told["counts"] | outside)


def settle(worker: RunningWorker, ask: str = ASK) -> Census:
    """A census with all the instances that are made ahead, to compare later ones with: they come beside the calls.

    The call that takes the census has one of them, for which the next one may be under way.
    """
    return _take_until(worker, ask, lambda now: [] if now.tasks["Owned._own"] >= WARM else [str(now)])


def check_nothing_is_left(worker: RunningWorker, before: Census, slack: int, ask: str = ASK) -> Census:
    """Wait until there is no more than before; disposal and warming up go on beside the calls."""
    return _take_until(worker, ask, lambda now: now.more_than(before, slack))


def _take_until(worker: RunningWorker, ask: str, wrong: Callable[[Census], list[str]]) -> Census:
    """The first census with which nothing is wrong."""
    deadline = time.monotonic() + PATIENCE
    while found := wrong(now := take(worker, ask)):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)  # what is made and disposed of beside the calls needs the processor
    return now


def until(worker: RunningWorker, holds: Callable[[str], bool]) -> str:
    """The worker's metrics, as soon as this holds of them."""
    deadline = time.monotonic() + PATIENCE
    while not holds(metrics := httpx2.get(f"{worker.origin}/metrics").text):
        assert worker.process.poll() is None
        assert time.monotonic() < deadline, [line for line in metrics.splitlines() if "pallas_calls" in line]
        time.sleep(
            0.02
        )  # between two looks at what tells nobody of its changes; the worker needs the processor
    return metrics


def series(metrics: str, name: str) -> float:
    """The value of a series; 0 if there is none."""
    for line in metrics.splitlines():
        found, _, value = line.rpartition(" ")
        if found == name:
            return float(value)
    return 0.0
