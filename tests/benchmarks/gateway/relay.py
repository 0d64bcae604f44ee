"""A tool call: direct, through the gateway with everything on, and through other proxies; in one run.

Each of the servers is a process of its own, and the client as well. What is measured in turn hits the same moods of the
machine; figures are medians over the runs.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import click
import psutil
import uvicorn
from fastmcp.server import create_proxy
from mcp.server.mcpserver import MCPServer

from benchmarks.fleet import machine
from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer
from pallas_common.protocol.gateway import AgentUpstream, GatewaySettings, Limits, ServerUpstream
from pallas_common.secrets.tokens import new_token
from pallas_gateway.access.audit import Audit
from pallas_gateway.access.limits import Limiter
from pallas_gateway.directory.records import AgentRecord
from pallas_gateway.events.log import EventLog
from pallas_gateway.http.app import GatewayApp
from pallas_gateway.http.hooks import CallAudit
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.principal import Principal
from pallas_gateway.identity.principals import Principals
from pallas_gateway.mcp.endpoint import Endpoint
from pallas_gateway.servers.compositor.agent import AgentCompositor
from pallas_gateway.servers.compositor.mounts import Mounts
from pallas_gateway.servers.relay.http.endpoint import parse_endpoint
from pallas_gateway.servers.relay.http_link import HttpLink
from pallas_gateway.servers.relay.model import Call
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pallas_gateway.directory.directory import Directory
    from pallas_gateway.http.places import Place
    from pallas_gateway.identity.sources import StoredTokens

PATIENCE = 60.0
TOKEN = new_token("agent")
WARM_UP = 50


@dataclass
class Subject:
    """What is measured: where, by which tool, and whose CPU time counts."""

    name: str
    url: str
    tool: str
    process: psutil.Process
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    rates: dict[int, list[float]] = field(default_factory=lambda: {1: [], 16: []})
    cpu: list[float] = field(default_factory=list)


@click.command()
@click.option("--runs", default=3, show_default=True, help="Runs of each.")
@click.option("--calls", default=500, show_default=True, help="Calls in each part of a run.")
@click.option("--proxy/--no-proxy", default=True, help="FastMCP's proxy as well.")
@click.option("--role", hidden=True, nargs=3, help="Be one of the servers: role, port, URL behind it.")
def main(runs: int, calls: int, proxy: bool, role: tuple[str, str, str] | None) -> None:
    """Measure and print."""
    if role is not None:
        serve(role[0], int(role[1]), role[2])
        return
    tool, gateway, other = free_ports(3)
    behind = f"http://127.0.0.1:{tool}/mcp"
    with ExitStack() as stack:
        subjects = [
            Subject(
                name, f"http://127.0.0.1:{port}/mcp", called, stack.enter_context(running(kind, port, behind))
            )
            for name, kind, port, called in (
                ("direct", "tool", tool, "echo"),
                ("Pallas", "gateway", gateway, "tool__echo"),
                ("FastMCP's proxy", "fastmcp", other, "echo"),
            )
            if proxy or kind != "fastmcp"
        ]
        for _ in range(runs):
            for subject in subjects:
                click.echo(f"{subject.name} …", err=True)
                asyncio.run(measure(subject, calls))
        click.echo(f"{machine()}\n")
        click.echo(
            "| through | p50 ms | added | p99 ms | added | calls/s at 1 | at 16 | CPU ms a call | RSS MiB |"
        )
        click.echo("|---|---|---|---|---|---|---|---|---|")
        for subject in subjects:
            click.echo(row(subject, subjects[0]))


def row(subject: Subject, direct: Subject) -> str:
    """One line of the table."""
    median = statistics.median
    p50, p99 = median(subject.p50), median(subject.p99)
    one, sixteen = median(subject.rates[1]), median(subject.rates[16])
    rss = subject.process.memory_info().rss / 1024**2
    return (
        f"| {subject.name} | {p50:.2f} | {p50 - median(direct.p50):.2f} | {p99:.2f} | {p99 - median(direct.p99):.2f} "
        f"| {one:.0f} | {sixteen:.0f} | {median(subject.cpu):.2f} | {rss:.0f} |"
    )


async def measure(subject: Subject, calls: int) -> None:
    """One run: one client, then sixteen."""
    link = HttpLink(parse_endpoint(subject.url, {"Authorization": f"Bearer {TOKEN}"}))
    opened = await link.open()

    async def once(number: int) -> float:
        began = time.perf_counter()
        params: dict[str, Any] = {"name": subject.tool, "arguments": {"text": "hello"}}
        answer = await link.relay(
            Call(method="tools/call", params=params, id=number, era=opened.era, timeout=PATIENCE)
        )
        assert not answer.is_error, answer.body
        assert answer.content_type == "application/json"
        return (time.perf_counter() - began) * 1000

    await link.request("tools/list", {}, timeout=PATIENCE)
    for number in range(WARM_UP):
        await once(number)
    cpu, began = sum(subject.process.cpu_times()[:2]), time.perf_counter()
    times = sorted([await once(number) for number in range(calls)])
    subject.rates[1].append(calls / (time.perf_counter() - began))
    subject.p50.append(times[calls // 2])
    subject.p99.append(times[calls * 99 // 100])
    began, left = time.perf_counter(), iter(range(calls))

    async def caller() -> None:
        for number in left:
            await once(number)

    await asyncio.gather(*(caller() for _ in range(16)))
    subject.rates[16].append(calls / (time.perf_counter() - began))
    subject.cpu.append((sum(subject.process.cpu_times()[:2]) - cpu) * 1000 / (2 * calls))
    await link.close()


@contextmanager
def running(role: str, port: int, behind: str) -> Iterator[psutil.Process]:
    """One of the servers, until the block ends."""
    command = [sys.executable, "-m", "benchmarks.gateway.relay", "--role", role, str(port), behind]
    with subprocess.Popen(command) as process:
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None, f"{role} has ended"
                    assert time.monotonic() < deadline, f"{role} does not listen"
                    time.sleep(0.05)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def serve(role: str, port: int, behind: str) -> None:
    """Be one of the servers until the process is ended."""
    if role == "tool":
        server = MCPServer("tool")
        server.tool(structured_output=False)(echo)
        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="warning")
    elif role == "fastmcp":
        app = create_proxy(behind).http_app()
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
    else:
        asyncio.run(serve_gateway(port, behind))


def echo(text: str) -> str:
    """Give back the text."""
    return text


async def serve_gateway(port: int, behind: str) -> None:
    """The gateway's parts as its process connects them, for one agent with one server."""
    log, in_flight = EventLog(), InFlight()
    limits = Limits(requests_per_minute=10**9, tenant_requests_per_minute=10**9, concurrent=64)
    settings = GatewaySettings(bind="127.0.0.1", public_url=f"http://127.0.0.1:{port}", limits=limits)
    mounts = Mounts(log.publish, limits.tool_timeout)
    with tempfile.TemporaryDirectory(prefix="pallas-bench-") as folder:
        audit = Audit(folder)
        app = GatewayApp(
            settings,
            Principals(cast("StoredTokens", _NoTokens()), _Worker(), in_flight),
            Limiter(limits),
            in_flight,
            endpoint=Endpoint(log, most_subscriptions=10, audit=CallAudit(audit)),
            surfaces=_Surfaces(mounts, behind),
            health=lambda: "ok",
        )
        listener = socket.create_server(("127.0.0.1", port))
        HttpServer(app, listener, Connections("port", 1000)).start()
        await asyncio.Event().wait()


class _NoTokens:
    async def find(self, digests: object) -> dict[str, object]:
        return {}


class _Worker:
    def find(self, digest: str) -> Principal | None:
        return Principal(id="worker:a/1", name="a", role="agent", agent="a", concurrent=64)

    async def refetch(self) -> None: ...


class _Surfaces:
    def __init__(self, mounts: Mounts, behind: str) -> None:
        self._mounts = mounts
        servers = (ServerUpstream(name="tool", settings={"transport": "http", "url": behind}),)
        self._agent = AgentUpstream(name="a", uid=None, port=1, socket=None, servers=servers)
        self.agents = {"a": AgentRecord(name="a")}

    def agent(self, name: str) -> AgentRecord | None:
        return self.agents.get(name)

    async def upstream(self, name: str) -> AgentUpstream | None:
        return self._agent

    def at(self, place: Place, principal: Principal) -> AgentCompositor:
        return AgentCompositor(self._mounts, cast("Directory", self), principal)


if __name__ == "__main__":
    main()
