"""`GET /v1/top` of the control API: what each agent uses and does now, in counters and in figures of the last minute.

Knows the facts that the status page is made from, and reads nothing twice; counters are for clients to compare.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from pallas_common import __version__
from pallas_common.times import ago, rfc3339
from pallas_supervisor.http.page.data.samples import quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from pallas_supervisor.http.page.data.facts import AgentFacts
    from pallas_supervisor.http.page.data.feed import Feed
    from pallas_supervisor.telemetry.process_metrics import Processes


@dataclass(frozen=True, slots=True)
class TopRoute:
    """Answers with what agents use.

    Args:
        _age: how many seconds ago the supervisor was started.
    """

    _feed: Feed
    _age: Callable[[], float]
    _processes: Processes

    async def get(self, _request: Request) -> Response:
        """All agents, in the order of `agents.yaml`, and the supervisor."""
        facts = await self._feed.facts()
        own = self._processes.read(os.getpid())
        document = {
            "deployment": facts.name,
            "time": ago(),
            "clock": round(time.monotonic(), 6),
            "supervisor": {
                "pid": os.getpid(),
                "version": __version__,
                "since": ago(self._age()),
                "memory": None if own is None else own.memory,
                "cpu_seconds": None if own is None else round(own.cpu, 3),
            },
            "agents": [_entry(agent) for agent in facts.agents],
        }
        return JSONResponse(document)


def _entry(agent: AgentFacts) -> dict[str, Any]:
    totals, rate = agent.totals, agent.trend.rate
    return {
        "name": agent.name,
        "state": str(agent.state),
        "desired": "up" if agent.wanted else "down",
        "since": rfc3339(agent.since),
        "health": str(agent.health),
        "restarts": agent.restarts,
        "memory": agent.memory,
        "cpu_seconds": agent.cpu,
        "running": totals.running,
        "waiting": totals.waiting,
        "calls": totals.calls,
        "errors": totals.errors,
        "calls_per_minute": round(rate.calls, 3),
        "errors_per_minute": round(rate.errors, 3),
        "p50": quantile(totals.durations, 0.5),
        "p95": quantile(totals.durations, 0.95),
    }
