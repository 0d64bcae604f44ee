"""200 streamed chats at a time through the gateway, against the same load at the workers: first text, gaps, memory.

The provider, a process of its own, writes into each piece of its text when it was sent: *on the way* is what the piece
has taken from there to the client. The ways are taken in turn; beside each a few chats ask the workers themselves, so
that the moods of the machine hit both: what a way adds is said against these. Then comes a long phase of turns of
threads for the memory. Size `--between` so that no process is near a whole core: the table says how much each took.
Prints tables for docs/performance.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import statistics
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import psutil

from benchmarks.fleet import cpu_seconds, machine
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, operator_token, with_gateway
from support.gateway.load import UNLIMITED
from support.load.paced_llm import paced_llm
from support.worker.conversation.llm import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENTS = ("one", "two")
BESIDE = 10
"""Chats that ask the workers themselves beside those that go another way."""
SAMPLE = 5.0
"""Seconds between two looks at the memory."""
_STAMP = re.compile(rb'"(?:delta|content)":"(\d{9,}) ')
"""A piece of the text; in a line with `pallas` it may be the whole of it, as the worker tells it at the end."""


@dataclass
class Seen:
    """What was measured on one way, in seconds."""

    first: list[float] = field(default_factory=list)
    """From the request to the first text."""
    way: list[float] = field(default_factory=list)
    """From the provider to the client, of each piece."""
    gaps: list[float] = field(default_factory=list)
    chats: int = 0
    cpu: dict[str, float] = field(default_factory=dict)
    """Of each process, as a share of a core."""
    seconds: float = 0.0


@dataclass
class Way:
    """One of the ways to ask."""

    name: str
    ports: list[int]
    """Of each agent."""
    paths: list[str]
    bodies: list[dict[str, Any]]
    token: str | None = None
    seen: Seen = field(default_factory=Seen)
    beside: Way | None = None
    """The workers, asked at the same time."""

    async def chat(self, agent: int, connection: list[Any]) -> None:
        """One chat, on a connection that is kept."""
        if not connection:
            connection += await asyncio.open_connection("127.0.0.1", self.ports[agent])
        reader, writer = connection
        body = json.dumps({**self.bodies[agent], "stream": True}).encode()
        token = "" if self.token is None else f"Authorization: Bearer {self.token}\r\n"
        head = (
            f"POST {self.paths[agent]} HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        began = time.monotonic()
        writer.write(head.encode() + body)
        answered = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answered.split(b"\r\n", 1)[0]:
            raise click.ClickException(f"{self.name}: {answered.decode()}")
        last: float | None = None
        while (line := await reader.readline()) != b"data: [DONE]\n":
            if not line:
                raise click.ClickException(f"{self.name}: an answer broke off")
            if b'"pallas"' not in line and (stamp := _STAMP.search(line)) is not None:
                now = time.monotonic()
                if last is None:
                    self.seen.first.append(now - began)
                else:
                    self.seen.gaps.append(now - last)
                self.seen.way.append(now - int(stamp[1]) / 1e9)
                last = now
        await reader.readuntil(b"0\r\n\r\n")
        self.seen.chats += 1

    async def load(self, chats: int, seconds: float, lasts: float) -> None:
        """So many chats at a time, for so long; they begin one after the other within the time that one lasts."""
        until = time.monotonic() + seconds

        async def client(number: int) -> None:
            connection: list[Any] = []
            await asyncio.sleep(lasts * number / chats)
            while time.monotonic() < until:
                await self.chat(number % len(AGENTS), connection)
            if connection:
                connection[1].close()

        async with asyncio.TaskGroup() as group:
            for number in range(chats):
                group.create_task(client(number))
            if self.beside is not None:
                group.create_task(self.beside.load(BESIDE, seconds, lasts))


@click.command()
@click.option("--chats", default=200, show_default=True, help="At a time.")
@click.option("--pieces", default=30, show_default=True, help="Of each answer.")
@click.option("--between", default=0.4, show_default=True, help="Seconds between two of them.")
@click.option("--seconds", default=30.0, show_default=True, help="Of each phase.")
@click.option("--rounds", default=2, show_default=True, help="All ways in turn, so often.")
@click.option("--steady", default=180.0, show_default=True, help="Seconds of the phase for the memory.")
def main(chats: int, pieces: int, between: float, seconds: float, rounds: int, steady: float) -> None:
    """Measure, and print tables."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        port, llm = stack.enter_context(paced_llm(pieces, between))
        fleet = stack.enter_context(deployed(Path(folder, "fleet"), port, chats))
        processes = {
            "gateway": psutil.Process(fleet.status()["gateway"]["pid"]),
            **{f"worker {name}": psutil.Process(fleet.agent(name)["pid"]) for name in AGENTS},
            "provider": psutil.Process(llm),
            "clients": psutil.Process(),
        }
        ways = ways_to(fleet)
        lasts = pieces * between
        click.echo(f"{machine()}, load {psutil.getloadavg()[0]:.1f} before")
        click.echo(f"{chats} chats at a time, {pieces} pieces {between * 1000:g} ms apart\n")
        for way in ways:  # what is made at first use
            asyncio.run(way.load(chats, 0.1, 1.0))
            way.seen = Seen()
        for way in ways[1:]:
            way.beside = replace(ways[0], seen=Seen())
        for _ in range(rounds):
            for way in ways:
                phase(way, processes, chats, seconds, lasts)
        print_ways(ways, list(processes))
        kept = ways[-1]
        samples = asyncio.run(sampled(kept, processes, chats, steady, lasts))
        print_memory(samples, steady)


@contextlib.contextmanager
def deployed(folder: Path, llm: int, chats: int) -> Iterator[Fleet]:
    """Agents with that provider, and a gateway, with limits that are not reached."""
    deployment = make_deployment(folder)
    deployment.settings = {
        "default_model": "openai.stub-model",
        "openai": {"api_key": KEY, "base_url": f"http://127.0.0.1:{llm}/v1"},
    }
    for name in AGENTS:
        deployment.add(name, "default_model", max_concurrency=chats)
    with Fleet(with_gateway(deployment, limits=UNLIMITED, workers="open")) as fleet:
        fleet.wait()
        await_gateway(fleet)
        yield fleet


def ways_to(fleet: Fleet) -> list[Way]:
    """The workers' own chat completions, the gateway's, and turns of new threads."""
    document, token = fleet.deployment.document, operator_token(fleet)
    door = [document["gateway"]["port"]] * len(AGENTS)
    completions: list[dict[str, Any]] = [
        {"model": name, "messages": [{"role": "user", "content": "Tell me"}]} for name in AGENTS
    ]
    path = "/v1/chat/completions"
    return [
        Way("worker", [document["agents"][name]["port"] for name in AGENTS], [path] * 2, completions),
        Way(f"gateway, `{path}`", door, [path] * 2, completions, token),
        Way(
            "gateway, a turn of a thread",
            door,
            [f"/api/v1/agents/{name}/chat" for name in AGENTS],
            [{"message": "Tell me"}] * 2,
            token,
        ),
    ]


def phase(way: Way, processes: dict[str, psutil.Process], chats: int, seconds: float, lasts: float) -> None:
    """One phase of one way."""
    before = {name: cpu_seconds(process) for name, process in processes.items()}
    began = time.monotonic()
    asyncio.run(way.load(chats, seconds, lasts))
    way.seen.seconds += time.monotonic() - began
    for name, process in processes.items():
        way.seen.cpu[name] = way.seen.cpu.get(name, 0.0) + cpu_seconds(process) - before[name]


async def sampled(
    way: Way, processes: dict[str, psutil.Process], chats: int, seconds: float, lasts: float
) -> dict[str, list[tuple[float, float]]]:
    """The memory (PSS, MiB) of gateway and workers during a phase, by the second."""
    found: dict[str, list[tuple[float, float]]] = {
        name: [] for name in processes if name not in ("provider", "clients")
    }
    began = time.monotonic()

    async def look() -> None:
        while True:
            for name, samples in found.items():
                memory = await asyncio.to_thread(processes[name].memory_full_info)
                samples.append((time.monotonic() - began, memory.pss / 2**20))
            await asyncio.sleep(SAMPLE)

    looking = asyncio.create_task(look())
    await way.load(chats, seconds, lasts)
    looking.cancel()
    return found


def print_ways(ways: list[Way], processes: list[str]) -> None:
    """First text, gaps and the way of each piece, and what each process took."""
    heads = ("first text ms p50", "p99", "gap ms p50", "p99", "on the way ms p50", "p99", "chats", "pieces/s")
    click.echo(
        "| | " + " | ".join(heads) + " | " + " | ".join(f"{name}, % of a core" for name in processes) + " |"
    )
    click.echo("|---" * (1 + len(heads) + len(processes)) + "|")
    for way in ways:
        seen = way.seen
        figures = [f"{at(values, p):.1f}" for values in (seen.first, seen.gaps, seen.way) for p in (50, 99)]
        figures += [str(seen.chats), f"{len(seen.way) / seen.seconds:.0f}"]
        figures += [f"{seen.cpu[name] / seen.seconds * 100:.0f}" for name in processes]
        click.echo(f"| {way.name} | " + " | ".join(figures) + " |")
    for way in ways[1:]:
        assert way.beside is not None
        own = way.beside.seen
        added = ", ".join(
            f"{what} p{p} {at(theirs, p) - at(ours, p):+.1f} ms ({at(ours, p):.1f})"
            for what, theirs, ours in (
                ("first text", way.seen.first, own.first),
                ("gap", way.seen.gaps, own.gaps),
                ("on the way", way.seen.way, own.way),
            )
            for p in (50, 99)
        )
        click.echo(f"\n{way.name}, against {own.chats} chats with the workers at the same time: {added}")


def print_memory(samples: dict[str, list[tuple[float, float]]], seconds: float) -> None:
    """What each process has, and how fast that grows in the second half."""
    click.echo(f"\n{seconds:.0f} s of turns of threads:\n")
    click.echo(
        "| | PSS MiB at the beginning | in the middle | at the end | KiB a minute in the second half |"
    )
    click.echo("|---|---|---|---|---|")
    for name, found in samples.items():
        half = [each for each in found if each[0] >= seconds / 2]
        slope = statistics.linear_regression(*zip(*half, strict=True)).slope * 60 * 1024
        values = [found[0][1], half[0][1], found[-1][1]]
        click.echo(f"| {name} | " + " | ".join(f"{each:.1f}" for each in values) + f" | {slope:+.0f} |")


def at(seconds: list[float], percent: int) -> float:
    """That percentile, in milliseconds."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1] * 1000


if __name__ == "__main__":
    main()
