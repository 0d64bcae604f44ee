"""A chat through the gateway: when its first text comes, against the worker's own, and what it costs the gateway.

The agent repeats what it is told, so that nothing but Pallas is measured. The three ways are asked in turn, one request
at a time, on connections that are kept. Prints a table for docs/performance.md.
"""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil

from benchmarks.fleet import cpu_seconds, machine
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, operator_token, with_gateway

AGENT = "echo"
SAID = "Hello there"
WARM = 30
"""Requests that are not counted, of each way."""
MOST_MORE = 5.0
"""Milliseconds that the first text may come later than from the worker itself."""
PLENTY = 1_000_000


@dataclass
class Way:
    """One of the ways to ask, and what was measured on it."""

    name: str
    port: int
    path: str
    body: dict[str, Any]
    token: str | None = None
    first: list[float] = field(default_factory=list)
    """Seconds until the first text; likewise until the end, and of the gateway's CPU."""
    whole: list[float] = field(default_factory=list)
    cpu: float = 0.0
    _connection: http.client.HTTPConnection | None = None

    def ask(self) -> tuple[float, float]:
        """Ask once: seconds until the first text, and until the end."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {"Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        began = time.perf_counter()
        self._connection.request("POST", self.path, json.dumps({**self.body, "stream": True}), headers)
        answer = self._connection.getresponse()
        first = None
        for line in answer:
            if first is None and SAID.encode() in line:
                first = time.perf_counter() - began
        if answer.status != 200 or first is None:
            raise click.ClickException(f"{self.name}: HTTP status {answer.status}")
        return first, time.perf_counter() - began


@click.command()
@click.option("--requests", default=300, show_default=True, help="Requests of each way.")
def main(requests: int) -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory() as folder:
        deployment = make_deployment(Path(folder) / "fleet", AGENT)
        limits = dict.fromkeys(("requests_per_minute", "tenant_requests_per_minute"), PLENTY)
        with Fleet(with_gateway(deployment, limits=limits, workers="open")) as fleet:
            fleet.wait()
            await_gateway(fleet)
            gateway = psutil.Process(fleet.status()["gateway"]["pid"])
            ways = ways_to(fleet)
            for number in range(WARM + requests):
                for way in ways:
                    before = cpu_seconds(gateway)
                    first, whole = way.ask()
                    if number >= WARM:
                        way.cpu += cpu_seconds(gateway) - before
                        way.first.append(first)
                        way.whole.append(whole)
    print(f"{machine()}; {requests} requests of each way, one at a time\n")
    print("| | first text p50 | p99 | end p50 | CPU of the gateway |\n|---|---|---|---|---|")
    for way in ways:
        cpu = "–" if way.token is None else f"{way.cpu / requests * 1000:.1f} ms"
        times = f"{at(way.first, 50):.1f} ms | {at(way.first, 99):.1f} ms | {at(way.whole, 50):.1f} ms"
        print(f"| {way.name} | {times} | {cpu} |")
    more = {way.name: at(way.first, 50) - at(ways[0].first, 50) for way in ways[1:]}
    late = [name for name, added in more.items() if added > MOST_MORE]
    print("\nadded to the first text: " + ", ".join(f"{name} {added:.1f} ms" for name, added in more.items()))
    sys.exit(1 if late else 0)


def ways_to(fleet: Fleet) -> list[Way]:
    """The worker's own chat completions, the gateway's, and a turn of a new thread."""
    document, token = fleet.deployment.document, operator_token(fleet)
    door = document["gateway"]["port"]
    completion = {"model": AGENT, "messages": [{"role": "user", "content": SAID}]}
    path = "/v1/chat/completions"
    return [
        Way("worker", document["agents"][AGENT]["port"], path, completion),
        Way(f"gateway, `{path}`", door, path, completion, token),
        Way("gateway, a turn of a thread", door, f"/api/v1/agents/{AGENT}/chat", {"message": SAID}, token),
    ]


def at(seconds: list[float], percent: int) -> float:
    """That percentile, in milliseconds."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1] * 1000


if __name__ == "__main__":
    main()
