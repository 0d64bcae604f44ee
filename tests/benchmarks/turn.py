"""A streamed turn: when its first text comes, what it costs beside `send_message`, and 100 of them in bursts.

The provider is a fake on loopback, which sends all of an answer at once. How long the worker's loop stands meanwhile is
told by the worker itself, and by a process of its own, which asks `/livez` again and again. Prints tables for
docs/performance.md.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import httpx
import psutil
from mcp.client import Client

from benchmarks.fleet import cpu_seconds, machine
from fakes.llm_bursts import Bursts, answer_of, run_bursts
from pallas_common.protocol.agent.llm import ModelCapabilities
from support.load.loop_watch import WATCH, forget, longest
from support.load.streams import answer_in, streamed, streaming
from support.worker.process import RunningWorker, run_worker
from support.worker.project import DEMO, project

if TYPE_CHECKING:
    from collections.abc import Iterator

PROVIDERS = ("openai", "generic", "responses", "anthropic")
SHORT = 5
"""Pieces of a short answer."""
PROBE = """
import http.client, json, sys, time
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
worst = []
until = time.monotonic() + 3600
print("ready", flush=True)
import threading
threading.Thread(target=lambda: (sys.stdin.readline(), globals().__setitem__("until", 0)), daemon=True).start()
while time.monotonic() < until:
    began = time.perf_counter()
    connection.request("GET", "/livez")
    connection.getresponse().read()
    worst.append(time.perf_counter() - began)
    time.sleep(0.002)
worst.sort()
print(json.dumps({"max": worst[-1], "p99": worst[int(len(worst) * 0.99)], "number": len(worst)}))
"""
"""Asks without a pause until a line comes; prints how long answers took, in seconds."""


@dataclass
class Subject:
    """One worker, and the provider behind it."""

    provider: str
    worker: RunningWorker
    bursts: Bursts
    agents: Path
    """The folder of its agent's module."""

    @property
    def process(self) -> psutil.Process:
        """The worker's."""
        return psutil.Process(self.worker.process.pid)


@click.command()
@click.option(
    "--runs", default=5, show_default=True, help="Runs of each, in turn; figures are medians of them."
)
@click.option("--calls", default=30, show_default=True, help="Calls of each kind in each run.")
@click.option("--streams", default=100, show_default=True, help="Streams at a time.")
@click.option("--pieces", default=2000, show_default=True, help="Pieces of each stream.")
@click.option("--stalled", default=10, show_default=True, help="Readers that do not read, beside them.")
@click.option(
    "--rounds", default=3, show_default=True, help="How often all these streams, one set after the other."
)
@click.option("--only", multiple=True, help=f"Only these providers: {', '.join(PROVIDERS)}.")
def main(
    runs: int, calls: int, streams: int, pieces: int, stalled: int, rounds: int, only: tuple[str, ...]
) -> None:
    """Measure and print."""
    providers = only or PROVIDERS
    click.echo(f"{machine()}\n")
    click.echo(
        "| provider | first text ms | slowest tenth | turn ms | `send_message` ms | CPU ms | its CPU ms |"
    )
    click.echo("|---|---|---|---|---|---|---|")
    with ExitStack() as stack:
        subjects = [stack.enter_context(subject(provider, SHORT)) for provider in providers]
        found: dict[str, list[dict[str, float]]] = {provider: [] for provider in providers}
        for _ in range(runs):
            for one in subjects:
                found[one.provider].append(asyncio.run(measure(one, calls)))
    for provider, results in found.items():
        row = [statistics.median(result[key] for result in results) for key in results[0]]
        click.echo(f"| {provider} | " + " | ".join(f"{value:.1f}" for value in row) + " |")
    click.echo(f"\n{streams} streams of {pieces} pieces at a time, and {stalled} readers that do not read:\n")
    click.echo(
        "| provider | all whole after s | CPU ms a piece | loop stands at most ms | of CPU | others wait at most ms "
        "| p99 | MB before → after each round |"
    )
    click.echo("|---|---|---|---|---|---|---|---|")
    for provider in providers:
        with subject(provider, pieces) as one:
            click.echo(f"| {provider} | {load(one, streams, stalled, rounds)} |")


@contextmanager
def subject(provider: str, pieces: int) -> Iterator[Subject]:
    """A worker whose model is the fake's, by this provider's API."""
    with run_bursts(pieces) as bursts, tempfile.TemporaryDirectory(prefix="pallas-bench-") as folder:
        url = bursts.anthropic_url if provider == "anthropic" else bursts.openai_url
        model = f"{provider}.stub-model"
        lines = (
            f"default_model: {model}\n{provider}: {{api_key: sk-stub, base_url: '{url}'}}\nllm_retries: 0\n"
        )
        agents = DEMO.format(servers=[]) + WATCH
        with run_worker(
            project(Path(folder), agents=agents, config=lines),
            default_model=model,
            capabilities=ModelCapabilities(context_window=100_000, max_output_tokens=5000),
            max_concurrency=1000,
            log_level="WARNING",
            root_log_level="WARNING",
        ) as worker:
            yield Subject(provider, worker, bursts, Path(folder, "agents"))


async def measure(one: Subject, calls: int) -> dict[str, float]:
    """Short turns and calls of `send_message`, in milliseconds."""
    first, turns, sends = [], [], []
    body = {"model": "demo", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    async with httpx.AsyncClient(timeout=60) as http, Client(one.worker.url) as mcp:
        await streamed(one.worker, "hello")
        await mcp.call_tool("demo", {"message": "hello"})
        before = cpu_seconds(one.process)
        for _ in range(calls):
            began = time.monotonic()
            one.bursts.exchanges.clear()
            async with http.stream("POST", f"{one.worker.origin}/v1/chat/completions", json=body) as response:
                seen = None
                async for line in response.aiter_lines():
                    if seen is None and '"content":"w' in line.replace(" ", ""):
                        seen = time.monotonic()
            turns.append(time.monotonic() - began)
            (exchange,) = one.bursts.exchanges
            assert seen is not None
            assert exchange.sent is not None
            first.append(seen - exchange.sent)
        middle = cpu_seconds(one.process)
        for _ in range(calls):
            began = time.monotonic()
            await mcp.call_tool("demo", {"message": "hello"})
            sends.append(time.monotonic() - began)
        after = cpu_seconds(one.process)
    first.sort()
    return {
        "first": statistics.median(first) * 1000,
        "first_p90": first[int(len(first) * 0.9)] * 1000,
        "turn": statistics.median(turns) * 1000,
        "send": statistics.median(sends) * 1000,
        "turn_cpu": (middle - before) / calls * 1000,
        "send_cpu": (after - middle) / calls * 1000,
    }


def load(one: Subject, streams: int, stalled: int, rounds: int) -> str:
    """The columns of the second table."""
    whole = answer_of(one.bursts.pieces)
    assert answer_in(asyncio.run(streamed(one.worker, "hello"))) == whole
    memory, cpu = [one.process.memory_info().rss], cpu_seconds(one.process)
    forget(one.agents)
    with subprocess.Popen(
        [sys.executable, "-c", PROBE, str(one.worker.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as probe:
        assert probe.stdin is not None
        assert probe.stdout is not None
        probe.stdout.readline()
        began = time.monotonic()
        for _ in range(rounds):
            asyncio.run(crowd(one.worker, streams, stalled, whole))
            memory.append(one.process.memory_info().rss)
        seconds = (time.monotonic() - began) / rounds
        told = json.loads(probe.communicate("\n")[0])
    cpu = (cpu_seconds(one.process) - cpu) / (streams + stalled) / one.bursts.pieces / rounds * 1000
    stood = longest(one.agents)
    return " | ".join(
        (
            f"{seconds:.1f}",
            f"{cpu:.3f}",
            f"{stood.passed * 1000:.0f}",
            f"{stood.cpu * 1000:.0f}",
            f"{told['max'] * 1000:.0f}",
            f"{told['p99'] * 1000:.1f}",
            " → ".join(f"{each / 1e6:.0f}" for each in memory),
        )
    )


async def crowd(worker: RunningWorker, streams: int, stalled: int, whole: str) -> None:
    """All streams at a time, read to the end; those that stall are left at the end."""
    over = asyncio.Event()

    async def stall() -> None:
        async with streaming(worker, "hello"):
            await over.wait()

    waiting = [asyncio.create_task(stall()) for _ in range(stalled)]
    for chunks in await asyncio.gather(*(streamed(worker, "hello") for _ in range(streams))):
        assert answer_in(chunks) == whole
    over.set()
    await asyncio.gather(*waiting)


if __name__ == "__main__":
    main()
