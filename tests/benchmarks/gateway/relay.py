"""A tool call: direct, through the gateway with everything on, and through other proxies; in one run.

Each of the servers is a process of its own, and the client as well; the gateway is that of a whole deployment. What is
measured in turn hits the same moods of the machine; figures are medians over the rounds. The others are set up as their
documentation says, limits raised. ContextForge is measured where `.peers` has it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import httpx
import psutil
import uvicorn
from fastmcp import Client
from fastmcp.server import create_proxy
from mcp.server.mcpserver import MCPServer

from benchmarks.fleet import machine
from pallas_gateway.relay.http.endpoint import parse_endpoint
from pallas_gateway.relay.http_link import HttpLink
from pallas_gateway.relay.messages.model import Call
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, make_token, with_gateway
from support.load.contextforge import NAME as CONTEXTFORGE
from support.load.contextforge import is_installed, run_contextforge
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pallas_gateway.relay.messages.model import Opened

PATIENCE = 60.0
WARM_UP = 50
AT_A_TIME = 16
UNLIMITED = {
    "requests_per_minute": 1_000_000,
    "concurrent": 1000,
    "tenant_requests_per_minute": 1_000_000,
    "tenant_concurrent": 1000,
}


class SessionsLink(HttpLink):
    """A client of 2025-11-25, which asks for nothing newer."""

    async def open(self) -> Opened:
        """Begin a session."""
        return await self._initialize()


@dataclass
class Subject:
    """What is measured: where, by which tool, and whose CPU time and memory count."""

    name: str
    url: str
    tool: str
    process: psutil.Process
    token: str | None = None
    speaks: str = ""
    calls: list[int] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def cpu_seconds(self) -> float:
        """Of the process and what it has started."""
        return sum(sum(each.cpu_times()[:2]) for each in self._processes())

    def memory(self) -> float:
        """MiB of them all, what they share counted once (PSS)."""
        return float(sum(each.memory_full_info().pss for each in self._processes())) / 2**20

    def _processes(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]


@click.command()
@click.option("--rounds", default=5, show_default=True, help="Rounds; each measures all in turn.")
@click.option("--calls", default=500, show_default=True, help="Calls in each part of a round.")
@click.option("--seconds", default=1.5, show_default=True, help="After which a part ends all the same.")
@click.option("--proxy/--no-proxy", default=True, help="The others' proxies as well.")
@click.option(
    "--era",
    type=click.Choice(["stateless", "sessions"]),
    default="stateless",
    show_default=True,
    help="What the client speaks: 2026-07-28 or 2025-11-25.",
)
@click.option("--role", hidden=True, nargs=3, help="Be one of the servers: role, port, URL behind it.")
def main(
    rounds: int, calls: int, seconds: float, proxy: bool, era: str, role: tuple[str, str, str] | None
) -> None:
    """Measure and print a table."""
    if role is not None:
        serve(role[0], int(role[1]), role[2])
        return
    begun = time.monotonic()
    with ExitStack() as stack:
        subjects = [subject for each in started(proxy) if (subject := stack.enter_context(each)) is not None]
        load, busy, own = os.getloadavg()[0], busy_seconds(), own_seconds()
        measuring = time.monotonic()
        for number in range(rounds):
            for subject in subjects:
                click.echo(f"round {number + 1}: {subject.name} …", err=True)
                asyncio.run(measure(subject, calls, seconds, SessionsLink if era == "sessions" else HttpLink))
        everything = (time.monotonic() - measuring) * (os.process_cpu_count() or 1)
        others = max(0.0, busy_seconds() - busy - (own_seconds() - own)) / everything
        click.echo(
            f"{machine()}; load {load:.1f} before, others took {others:.0%} of the machine meanwhile; {rounds} rounds "
            f"of at most {calls} calls or {seconds:g} s; {time.monotonic() - begun:.0f} s in all\n"
        )
        click.echo(
            "| through | speaks | calls | p50 ms | added | p99 ms | added | p50 / direct | calls/s at 16 "
            "| CPU ms a call | calls/s of one core | MiB |"
        )
        click.echo("|---|---|---|---|---|---|---|---|---|---|---|---|")
        for subject in subjects:
            click.echo(row(subject, subjects[0]))


def busy_seconds() -> float:
    """CPU seconds of the machine that somebody used, or its host took away."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def own_seconds() -> float:
    """Those of this process and all that it has started."""
    this = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in (this, *this.children(recursive=True)))


def row(subject: Subject, direct: Subject) -> str:
    """One line of the table: medians over the rounds; what is added is the median of each round's difference."""

    def added(one: list[float], other: list[float]) -> str:
        if subject is direct:
            return "–"
        return f"{statistics.median(mine - base for mine, base in zip(one, other, strict=True)):.2f}"

    median = statistics.median
    ratio = median(mine / base for mine, base in zip(subject.p50, direct.p50, strict=True))
    cpu = median(subject.cpu)
    return (
        f"| {subject.name} | {subject.speaks} | {sum(subject.calls)} "
        f"| {median(subject.p50):.2f} | {added(subject.p50, direct.p50)} "
        f"| {median(subject.p99):.2f} | {added(subject.p99, direct.p99)} | {ratio:.1f} "
        f"| {median(subject.rate):.0f} | {cpu:.2f} | {1000 / cpu:.0f} | {subject.memory():.0f} |"
    )


async def measure(subject: Subject, calls: int, seconds: float, kind: type[HttpLink]) -> None:
    """One round: one client, then sixteen."""
    headers = {} if subject.token is None else {"Authorization": f"Bearer {subject.token}"}
    link = kind(parse_endpoint(subject.url, headers))
    opened = await link.open()
    subject.speaks = opened.version

    async def once(number: int) -> float:
        began = time.perf_counter()
        params: dict[str, Any] = {"name": subject.tool, "arguments": {"text": "hello"}}
        answer = await link.relay(
            Call(method="tools/call", params=params, id=number, era=opened.era, timeout=PATIENCE)
        )
        assert not answer.is_error, answer.body
        assert answer.content_type == "application/json"
        return (time.perf_counter() - began) * 1000

    async def part(most: int, at_a_time: int) -> tuple[list[float], float]:
        """How long each call took, in milliseconds, and calls a second."""
        times: list[float] = []
        left, began = iter(range(most)), time.perf_counter()

        async def caller() -> None:
            for number in left:
                times.append(await once(number))
                if time.perf_counter() - began > seconds:
                    return

        await asyncio.gather(*(caller() for _ in range(at_a_time)))
        return sorted(times), len(times) / (time.perf_counter() - began)

    await link.request("tools/list", {}, timeout=PATIENCE)
    await part(WARM_UP, 1)
    cpu = subject.cpu_seconds()
    alone, _ = await part(calls, 1)
    together, rate = await part(calls, AT_A_TIME)
    made = len(alone) + len(together)
    subject.cpu.append((subject.cpu_seconds() - cpu) * 1000 / made)
    subject.calls.append(made)
    subject.p50.append(alone[len(alone) // 2])
    subject.p99.append(alone[len(alone) * 99 // 100])
    subject.rate.append(rate)
    await link.close()


def started(proxy: bool) -> Iterator[Any]:
    """The subjects, each as a context manager that runs it; the first is the server itself."""
    port = free_ports(1)[0]
    behind = f"http://127.0.0.1:{port}/mcp"
    yield server("direct", "tool", port, behind)
    yield gateway(behind)
    if proxy:
        yield server("FastMCP's proxy", "fastmcp", free_ports(1)[0], behind)
        yield server("FastMCP's proxy, one session for all", "fastmcp-connected", free_ports(1)[0], behind)
        yield contextforge(behind)


@contextmanager
def server(name: str, role: str, port: int, behind: str) -> Iterator[Subject]:
    """One of the servers of this module, until the block ends."""
    command = [sys.executable, "-m", "benchmarks.gateway.relay", "--role", role, str(port), behind]
    with subprocess.Popen(command) as process:
        try:
            url = f"http://127.0.0.1:{port}/mcp"
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    httpx.get(url, timeout=1)
                    break
                except httpx.TransportError:
                    assert process.poll() is None, f"{role} has ended"
                    assert time.monotonic() < deadline, f"{role} does not listen"
                    time.sleep(0.05)
            yield Subject(name, url, "echo", psutil.Process(process.pid))
        finally:
            process.terminate()


@contextmanager
def gateway(behind: str) -> Iterator[Subject]:
    """The gateway of a deployment with one agent that has that server, asked with a token of the agent."""
    with tempfile.TemporaryDirectory(prefix="pallas-bench-") as folder:
        deployment = make_deployment(Path(folder, "fleet"))
        deployment.servers = {"tool": {"transport": "http", "url": behind}}
        deployment.add("worker", servers=("tool",))
        with_gateway(deployment, limits=UNLIMITED)
        with Fleet(deployment) as fleet:
            fleet.wait()
            await_gateway(fleet)
            token = make_token(fleet, "caller", agent="worker")
            process = psutil.Process(fleet.status()["gateway"]["pid"])
            url = f"http://127.0.0.1:{deployment.document['gateway']['port']}/mcp"
            yield Subject("Pallas", url, "tool__echo", process, token)


@contextmanager
def contextforge(behind: str) -> Iterator[Subject | None]:
    """ContextForge with that server registered, behind a virtual server; None where it is not installed."""
    if not is_installed():
        click.echo(f"not measured: {CONTEXTFORGE}, which is not in .peers", err=True)
        yield None
        return
    with run_contextforge(behind) as running:
        yield Subject(CONTEXTFORGE, running.url, running.tool, psutil.Process(running.pid), running.token)


def serve(role: str, port: int, behind: str) -> None:
    """Be one of the servers until the process is ended."""
    if role == "tool":
        tool = MCPServer("tool", log_level="WARNING")
        tool.tool(structured_output=False)(echo)
        uvicorn.run(tool.streamable_http_app(), host="127.0.0.1", port=port, log_level="warning")
    elif role == "fastmcp":
        app = create_proxy(behind).http_app()
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
    else:
        asyncio.run(serve_connected(port, behind))


async def serve_connected(port: int, behind: str) -> None:
    """FastMCP's proxy with a client that is connected once: quicker, and sessions of callers are not told apart."""
    async with Client(behind) as client:
        app = create_proxy(client).http_app()
        await uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning")).serve()


def echo(text: str) -> str:
    """Give back the text."""
    return text


if __name__ == "__main__":
    main()
