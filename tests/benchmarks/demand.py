"""Agents on demand: what a cold call takes beyond a warm one, and what 1,000 declared agents cost of which few run.

The models are a fake on loopback, by each provider's API; calls are chat completions on the agent's port, each on a
connection of its own. Prints tables for docs/performance.md.
"""

from __future__ import annotations

import http.client
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import httpx
import psutil

from benchmarks.fleet import cpu_seconds, machine
from fakes.llm_bursts import run_bursts
from support.fleet.deployment import Deployment, make_deployment
from support.fleet.fleet import BIN, PATIENCE, Fleet
from support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

MODELS = {
    "openai": "openai.gpt-4.1",
    "generic": "generic.stub",
    "responses": "responses.gpt-4.1",
    "anthropic": "anthropic.claude-sonnet-4-5",
    "none": "passthrough",
}
MODULE = """\
from fast_agent import FastAgent

fast = FastAgent("bench", parse_cli_args=False)


@fast.agent(name="{name}", model="{model}", instruction="Repeat.")
async def agent() -> None:
    ...
"""
IDLE_TIMEOUT = 1.0
SETTLING = 0.7
"""Seconds after an agent has become idle: the next worker is forked ahead meanwhile."""
CROWD = 20
"""Idle agents that are called at once."""
LLM = """\
apiVersion: pallas/v1
kind: llm
metadata: {name: stub}
spec: {type: generic, model: stub, url: 'http://127.0.0.1:9/v1'}
"""
AGENT = """\
---
apiVersion: pallas/v1
kind: agent
metadata: {{name: declared-{number}}}
spec: {{description: "Agent {number}.", llm: stub}}
"""
STAGES = ("importing", "creating", "serving", "ready")


@click.command()
@click.option("--runs", default=9, show_default=True, help="Cold calls of each provider.")
@click.option("--declared", default=1000, show_default=True, help="Agents declared; 0: leave that part out.")
@click.option("--idle", default=60.0, show_default=True, help="Seconds in which the supervisor is idle.")
def main(runs: int, declared: int, idle: float) -> None:
    """Measure and print."""
    click.echo(f"{machine()}\n")
    cold_calls(runs)
    if declared:
        many(declared, idle, runs)


# --- cold and warm ------------------------------------------------------------------------------------------


def cold_calls(runs: int) -> None:
    """Calls of idle agents, beside warm ones; all providers in turn."""
    results: dict[str, list[tuple[float, float]]] = {provider: [] for provider in MODELS}
    with fleet_of_providers() as fleet:
        for _ in range(runs):
            for provider, figures in results.items():
                wait_until_idle(fleet, provider)
                cold = call(fleet, provider)
                warm = statistics.median(call(fleet, provider) for _ in range(5))
                figures.append((cold * 1000, warm * 1000))
        stages = stages_in(fleet, "openai")
        crowd = crowd_seconds(fleet)
    click.echo("| provider | cold ms | warm ms | cold − warm ms, median | quartiles |\n|---|---|---|---|---|")
    for provider, figures in results.items():
        cold, warm = (statistics.median(column) for column in zip(*figures, strict=True))
        low, middle, high = statistics.quantiles((c - w for c, w in figures), n=4)
        click.echo(f"| {provider} | {cold:.0f} | {warm:.0f} | {middle:.0f} | {low:.0f} to {high:.0f} |")
    click.echo(f"\nms from the connection, openai, medians: {stages}")
    click.echo(f"{CROWD} idle agents called at once: all answered after {crowd:.2f} s")


@contextmanager
def fleet_of_providers() -> Iterator[Fleet]:
    """One agent on demand for each provider, and some without a model."""
    folder = Path(tempfile.mkdtemp(prefix="pallas-bench-"))
    try:
        with run_bursts(5) as bursts:
            deployment = make_deployment(folder / "fleet")
            deployment.settings = {"llm_retries": 0}
            for provider, model in MODELS.items():
                url = bursts.anthropic_url if provider == "anthropic" else bursts.openai_url
                if provider != "none":
                    deployment.settings[provider] = {"api_key": "sk-stub", "base_url": url}
                deployment.add(provider, start="on-demand", idle_timeout=IDLE_TIMEOUT)
                module = folder / "fleet" / "agents" / f"{provider}.py"
                module.write_text(MODULE.format(name=provider, model=model))
            for number in range(CROWD):
                deployment.add(f"crowd{number}", start="on-demand", idle_timeout=IDLE_TIMEOUT)
            with Fleet(deployment, env={"PALLAS_LOG_LEVEL": "DEBUG"}) as fleet:
                fleet.wait()
                fleet.spare()
                yield fleet
    finally:
        shutil.rmtree(folder)


def wait_until_idle(fleet: Fleet, name: str) -> None:
    """Return once the agent has been idle for a moment."""
    fleet.await_that(lambda: fleet.agent(name)["state"] == "idle", f"{name} is idle")
    time.sleep(SETTLING)


def call(fleet: Fleet, name: str) -> float:
    """Seconds that one call takes, its connection included."""
    body = {"model": name, "messages": [{"role": "user", "content": "hello"}]}
    began = time.perf_counter()
    port = fleet.deployment.agents[name]["port"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    seconds = time.perf_counter() - began
    connection.close()
    assert answer.status == 200, text
    return seconds


def stages_in(fleet: Fleet, name: str) -> str:
    """How far the agent's starts were, and when, as the log tells it."""
    passed: dict[str, list[float]] = {stage: [] for stage in STAGES}
    began: datetime | None = None
    for record in fleet.records():
        if record.get("agent") != name:
            continue
        at, message = datetime.fromisoformat(record["time"]), record["message"]
        if record.get("previous") == "idle":
            began = at
        stage = "ready" if record.get("state") == "ready" else message.removeprefix(f"{name}: ")
        if began is not None and stage in passed:
            passed[stage].append((at - began).total_seconds() * 1000)
    return ", ".join(f"{stage} {statistics.median(times):.0f}" for stage, times in passed.items() if times)


def crowd_seconds(fleet: Fleet) -> float:
    """Until all of a crowd of idle agents have answered, called at once."""
    names = [f"crowd{number}" for number in range(CROWD)]
    time.sleep(SETTLING)
    began = time.perf_counter()

    with ThreadPoolExecutor(CROWD) as threads:
        list(threads.map(lambda name: call(fleet, name), names))
    return time.perf_counter() - began


# --- many declared ------------------------------------------------------------------------------------------


def many(declared: int, idle: float, runs: int) -> None:
    """A deployment without, and the same with so many declared agents, of which five run."""
    folder = Path(tempfile.mkdtemp(prefix="pallas-bench-"))
    try:
        text = LLM + "".join(AGENT.format(number=number) for number in range(declared))
        (folder / "declared.yaml").write_text(text)
        small = make_deployment(folder / "fleet", *(f"agent{number}" for number in range(5)))
        # One of them needs the library that the declared ones need, too: to import it takes longer than all else.
        small.settings = {"generic": {"api_key": "none", "base_url": "http://127.0.0.1:9/v1"}}
        small.write()
        (folder / "fleet/agents/agent0.py").write_text(MODULE.format(name="agent0", model="generic.stub"))
        starts: dict[str, list[float]] = {"none": [], "declared": []}
        state = {"PALLAS_STATE_DIR": str(folder / "state")}
        rows: dict[str, tuple[float, float, float]] = {}
        with Fleet(small, env={"PALLAS_STATE_DIR": str(folder / "empty")}) as fleet:
            fleet.wait()
            rows["5 agents"] = footprint(fleet, idle)
        with Fleet(small, env=state) as fleet:
            fleet.wait()
            applied = seconds_of(fleet, "apply", "-f", str(folder / "declared.yaml"))
            again = seconds_of(fleet, "apply", "-f", str(folder / "declared.yaml"))
            rows[f"{declared} declared, 5 run"] = footprint(fleet, idle)
            listed = statistics.median(seconds_of(fleet, "get", "agents") for _ in range(runs))
            scraped = statistics.median(scrape_seconds(fleet) for _ in range(runs))
        for _ in range(runs):
            for name, environment in (
                ("none", str(folder / "empty")),
                ("declared", state["PALLAS_STATE_DIR"]),
            ):
                starts[name].append(start_seconds(small, environment))
        ordinary = make_deployment(folder / "ordinary", *(f"agent{number}" for number in range(20)))
        with Fleet(ordinary, env={"PALLAS_STATE_DIR": str(folder / "other")}) as fleet:
            fleet.wait()
            rows["20 agents"] = footprint(fleet, idle)
    finally:
        shutil.rmtree(folder)
    click.echo(
        f"\n| the supervisor of | PSS MiB | RSS MiB | CPU, % of a core over {idle:g} s |\n|---|---|---|---|"
    )
    for name, (pss, rss, share) in rows.items():
        click.echo(f"| {name} | {pss:.1f} | {rss:.1f} | {share:.2f} |")
    none, with_declared = (statistics.median(times) for times in starts.values())
    click.echo(f"\nall ready after {none:.2f} s with none and {with_declared:.2f} s with {declared}")
    click.echo(f"apply of {declared}: {applied:.2f} s; again, with nothing new: {again:.2f} s")
    click.echo(f"pallasctl get agents: {listed * 1000:.0f} ms; a scrape: {scraped * 1000:.0f} ms")


def footprint(fleet: Fleet, idle: float) -> tuple[float, float, float]:
    """The supervisor's PSS and RSS in MiB, and its share of a core in percent while nothing happens."""
    process = psutil.Process(fleet.pid)
    time.sleep(5)
    before = cpu_seconds(process)
    time.sleep(idle)
    share = (cpu_seconds(process) - before) / idle * 100
    memory = process.memory_full_info()
    return memory.pss / 2**20, memory.rss / 2**20, share


def seconds_of(fleet: Fleet, *arguments: str) -> float:
    """How long `pallasctl` takes."""
    began = time.perf_counter()
    done = subprocess.run(
        [str(BIN / "pallasctl"), *arguments],
        cwd=fleet.deployment.directory,
        env=fleet.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return time.perf_counter() - began


def scrape_seconds(fleet: Fleet) -> float:
    """One scrape of the whole deployment."""
    began = time.perf_counter()
    answer = httpx.get(f"{fleet.deployment.registry}/metrics", timeout=PATIENCE)
    assert answer.status_code == 200
    return time.perf_counter() - began


def start_seconds(deployment: Deployment, state: str) -> float:
    """From the start of `pallas` until all are ready."""
    deployment.document["registry_port"] = free_ports(1)[0]
    deployment.write()
    began = time.perf_counter()
    with Fleet(deployment, env={"PALLAS_STATE_DIR": state}) as fleet:
        fleet.wait()
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
