"""One client an agent that calls it again and again and keeps count, to be compared with what the fleet counted.

Knows a tools/call on the wire and the merged metrics; nothing of processes.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from support.worker.raw import raw_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.fleet.deployment import Deployment

CALL_TIMEOUT = 60.0
"""Seconds after which a call counts as lost; longer than anything that a fault may take to be mended."""


class _Caller(threading.Thread):
    """Calls one agent. `seen` counts `ok`, `error`, `refused` by the supervisor, and `unknown`: broken off."""

    def __init__(self, agent: str, port: int, interval: float) -> None:
        super().__init__(name=f"calls {agent}", daemon=True)
        self.agent = agent
        self.seen: Counter[str] = Counter()
        self.strange: list[str] = []
        self.turn = threading.Lock()
        self.stopping = threading.Event()
        self._port = port
        self._interval = interval
        headers, self._body = raw_call("auto", "count me")
        self._body = self._body.replace('"demo"', '"send_message"')
        self._headers = {**headers, "mcp-name": "send_message", "connection": "close"}

    def run(self) -> None:
        while not self.stopping.wait(self._interval):
            with self.turn:
                self.seen[self._call()] += 1

    def _call(self) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=CALL_TIMEOUT)
        try:
            connection.request("POST", "/mcp", self._body, self._headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException):
            return "unknown"
        finally:
            connection.close()
        if answer.status == 503:
            return "refused"
        if answer.status == 200:
            lines = [
                line.removeprefix("data: ") for line in text.splitlines() if line.startswith(("data: {", "{"))
            ]
            result = json.loads(lines[-1]).get("result") if lines else None
            if result is not None:
                return "error" if result.get("isError") else "ok"
        self.strange.append(f"{self.agent} answered {answer.status}: {text[:500]}")
        return "unknown"


class CountedCalls:
    """Clients of all agents of a deployment, as a context."""

    def __init__(self, deployment: Deployment, interval: float = 0.5) -> None:
        self._deployment = deployment
        ports = {name: agent["port"] for name, agent in deployment.agents.items()}
        self._callers = [_Caller(name, port, interval) for name, port in ports.items()]

    def __enter__(self) -> Self:
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, *_: object) -> None:
        for caller in self._callers:
            caller.stopping.set()
        for caller in self._callers:
            caller.join(CALL_TIMEOUT)

    @property
    def total(self) -> Counter[str]:
        """The outcomes of all calls."""
        return sum((caller.seen for caller in self._callers), Counter())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No call is under way meanwhile."""
        with ExitStack() as stack:
            for caller in self._callers:
                stack.enter_context(caller.turn)
            yield

    def problems(self) -> list[str]:
        """Where the fleet's counters and these clients' disagree: every answer is counted once, and nothing else."""
        with self.paused():
            counted = self._counted()
            found = [strange for caller in self._callers for strange in caller.strange]
            for caller in self._callers:
                for outcome in ("ok", "error"):
                    seen, unknown = caller.seen[outcome], caller.seen["unknown"]
                    there = counted[caller.agent, outcome]
                    if not seen <= there <= seen + unknown:
                        found.append(
                            f"{caller.agent}: {seen} calls answered {outcome} and {unknown} broken off, "
                            f"but {there:g} counted"
                        )
            return found

    def _counted(self) -> Counter[tuple[str, str]]:
        text = httpx.get(f"{self._deployment.registry}/metrics", timeout=CALL_TIMEOUT).text
        counted: Counter[tuple[str, str]] = Counter()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "pallas_send_message_total":
                    counted[sample.labels["agent"], sample.labels["outcome"]] += int(sample.value)
        return counted
