"""One call with 0, 1 and 3 downstream servers: latency, calls per second, CPU; beside a bare tool and fast-agent.

Everything runs in a process of its own: the client, the downstream servers, and what is measured. All are measured
in turn in one run, so that the machine's moods hit all alike; figures are medians. With downstream servers each
call makes the agent call a tool of the first. Prints a table for docs/performance.md.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click
import httpx
import psutil
import yaml

from benchmarks.fleet import cpu_seconds, machine
from support.fleet.deployment import make_deployment
from support.fleet.fleet import BIN, Fleet
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0
PEERS = [sys.executable, "-m", "support.load.call_peers"]
ROOT = Path(__file__).parents[2]


@dataclass
class Subject:
    """What is measured: where it answers, and the processes whose CPU time counts."""

    kind: str
    servers: int
    url: str
    tool: str
    process: psutil.Process
    p50: list[float] = field(default_factory=list)
    p95: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def parallel(self) -> int:
        """How many callers at a time: fast-agent's shared instance refuses a second one."""
        return 1 if self.kind == "shared" else 16

    @property
    def message(self) -> str:
        """What a call says."""
        return '***CALL_TOOL server0__echo {"text": "hello"}' if self.servers else "hello"


@click.command()
@click.option("--servers", default="0,1,3", show_default=True, help="Numbers of downstream servers.")
@click.option("--runs", default=5, show_default=True, help="Runs of each.")
@click.option("--sequential", default=100, show_default=True, help="Calls one after another, in each run.")
@click.option("--calls", default=200, show_default=True, help="Calls of 16 callers, in each run.")
@click.option("--only", multiple=True, help="Measure only this kind: bare, pallas, shared, request.")
def main(servers: str, runs: int, sequential: int, calls: int, only: tuple[str, ...]) -> None:
    """Measure and print."""
    counts = [int(count) for count in servers.split(",")]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pallas-bench-")))
        subjects = list(start(stack, folder, counts, only))
        for run in range(runs):
            for subject in subjects:
                click.echo(f"run {run + 1}/{runs}: {subject.kind}, {subject.servers}", err=True)
                slow = 4 if subject.kind in ("shared", "request") else 1
                measure(subject, sequential // slow, calls // slow)
    click.echo(f"{machine()}\n")
    click.echo("| servers | answered by | p50 ms | p95 ms | calls/s at 16 | CPU ms a call | p50 ÷ bare |")
    click.echo("|---|---|---|---|---|---|---|")
    for subject in sorted(subjects, key=lambda it: it.servers):
        click.echo(row(subject, subjects))


def row(subject: Subject, subjects: list[Subject]) -> str:
    """One line of the table."""
    p50, p95, rate, cpu = (
        statistics.median(values) for values in (subject.p50, subject.p95, subject.rate, subject.cpu)
    )
    base = [statistics.median(other.p50) for other in subjects if other.kind == "bare"]
    ratio = f"{p50 / base[0]:.1f}" if base else "–"
    name = {"bare": "a bare tool", "pallas": "Pallas"}.get(
        subject.kind, f"`fast-agent serve`, {subject.kind} instance"
    )
    calls = "refused" if subject.parallel == 1 else f"{rate:.0f}"
    return f"| {subject.servers} | {name} | {p50:.1f} | {p95:.1f} | {calls} | {cpu:.1f} | {ratio} |"


def start(stack: ExitStack, folder: Path, counts: list[int], only: tuple[str, ...]) -> Iterator[Subject]:
    """Start what is measured, and the downstream servers that it needs."""
    ports = iter(free_ports(3 + 1 + 2 * len(counts)))
    downstreams = [next(ports) for _ in range(max(counts))]
    for port in downstreams:
        stack.enter_context(running([*PEERS, "downstream", str(port)], ROOT, port))
    settings = {
        f"server{i}": {"transport": "http", "url": f"http://127.0.0.1:{port}/mcp"}
        for i, port in enumerate(downstreams)
    }
    if not only or "bare" in only:
        port = next(ports)
        process = stack.enter_context(running([*PEERS, "bare", str(port)], ROOT, port))
        yield Subject("bare", 0, f"http://127.0.0.1:{port}/mcp", "send_message", process)
    if not only or "pallas" in only:
        deployment = make_deployment(folder / "fleet")
        deployment.servers = settings
        for count in counts:
            deployment.add(f"agent{count}", servers=tuple(list(settings)[:count]))
        fleet = stack.enter_context(Fleet(deployment))
        fleet.wait()
        for count in counts:
            pid = fleet.pids()[f"agent{count}"]
            assert pid is not None
            yield Subject(
                "pallas", count, deployment.url(f"agent{count}"), "send_message", psutil.Process(pid)
            )
    for scope in ("shared", "request"):
        for count in counts:
            if not only or scope in only:
                home = folder / f"{scope}{count}"
                home.mkdir()
                chosen = dict(list(settings.items())[:count])
                (home / "fastagent.config.yaml").write_text(
                    yaml.safe_dump({"default_model": "passthrough", "mcp": {"servers": chosen}})
                )
                port = next(ports)
                command = [str(BIN / "fast-agent"), "serve", "--transport", "http", "--port", str(port)]
                command += ["--name", "bench", "--model", "passthrough", "--instance-scope", scope]
                command += ["--servers", ",".join(chosen)] if chosen else []
                process = stack.enter_context(running(command, home, port))
                url = f"http://127.0.0.1:{port}/mcp"
                yield Subject(scope, count, url, tool_of(url), process)


def tool_of(url: str) -> str:
    """The name of the first tool that is listed there."""
    script = (
        "import asyncio, sys\nfrom mcp.client import Client\n"
        "async def main():\n    async with Client(sys.argv[1]) as c: print((await c.list_tools()).tools[0].name)\n"
        "asyncio.run(main())"
    )
    listed = subprocess.run(
        [sys.executable, "-c", script, url], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return listed.stdout.strip()


@contextmanager
def running(command: list[str], directory: Path, port: int) -> Iterator[psutil.Process]:
    """A process that listens on `port`, until the block ends."""
    log = tempfile.TemporaryFile()  # noqa: SIM115 - it goes with the process
    process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + PATIENCE
        while not answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise click.ClickException(f"{command}: {log.read().decode()[-2000:]}")
            time.sleep(0.05)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def answers(port: int) -> bool:
    """Whether anything speaks HTTP there."""
    try:
        httpx.get(f"http://127.0.0.1:{port}/", timeout=5)
    except httpx.TransportError:
        return False
    return True


def measure(subject: Subject, sequential: int, calls: int) -> None:
    """One run of one subject, by a client process of its own."""
    command = [*PEERS, "client", subject.url, subject.tool, subject.message]
    with subprocess.Popen(
        [*command, str(sequential), str(subject.parallel), str(calls)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        try:
            latencies = json.loads(client.stdout.readline())
            before = cpu_seconds(subject.process)
            client.stdin.write("\n")
            client.stdin.flush()
            rate = json.loads(client.stdout.readline())["rate"]
        except ValueError:
            client.kill()
            raise
    subject.p50.append(latencies["p50"])
    subject.p95.append(latencies["p95"])
    subject.rate.append(rate)
    subject.cpu.append((cpu_seconds(subject.process) - before) / calls * 1000)


if __name__ == "__main__":
    main()
