"""A real Prometheus scrapes a running fleet: nothing is lost over kills, each alert fires when it is caused for real.

The alerts are those of `deploy/`, with what takes minutes made short: no `for`, windows of a minute, and three
thresholds that only time reaches. What they look at is caused, not written.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import signal
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, Turn, Usage, by_request, run_llm_stub
from fakes.loopback import Fault
from support.clients import call, send_message
from support.data.deploy_files import queries, rules
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.fleet.prometheus import run_prometheus
from support.fleet.promtool import promtool
from support.gateway.door import await_gateway, door, make_token, with_gateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fakes.downstream import RunningDownstream
    from support.fleet.deployment import Deployment
    from support.fleet.prometheus import Prometheus

THRESHOLDS = {
    "PallasLatency": ("> 60", "> 0.2"),
    "PallasProbesStale": ("> 120", "> 30"),
    "PallasFlapping": ("> 6", "> 2"),
}
TALKER = """
from fast_agent import FastAgent

fast = FastAgent("fleet", parse_cli_args=False)


@fast.agent(name="{name}", model="{model}", instruction="You answer.", servers={servers})
async def main(): ...
"""
FAT = """
import pathlib
from fast_agent import FastAgent

if pathlib.Path("broken-from-now-on").exists():
    raise RuntimeError("there is no next one")
fast = FastAgent("fleet", parse_cli_args=False)
held = []


async def eat() -> str:
    \"\"\"Take most of what may be taken.\"\"\"
    pathlib.Path("broken-from-now-on").touch()
    held.append(bytearray(b"x" * 0)) if held else held.append(b"x" * ({limit} * 93 // 100 - {used}))
    return "eaten"


@fast.agent(name="{name}", model="passthrough", instruction="You eat.", function_tools=[eat])
async def main(): ...
"""
LIMIT = 600 * 2**20
NAMES = """
from fast_agent import FastAgent
from prometheus_client import Counter, Gauge, Histogram, Summary

fast = FastAgent("fleet", parse_cli_args=False)


def define(kind, name, labels=(), values=(), **more):
    metric = kind(name, "Some\\nlines \\\\ of \\x00 help.", labels, registry=None, **more)
    metric = metric.labels(*values) if labels else metric
    metric.inc(7) if kind in (Counter, Gauge) else metric.observe(7)


{names}


@fast.agent(name="{name}", model="passthrough", instruction="You count.")
async def main(): ...
"""
POLITE = """
define(Counter, "jobs_done", ["agent"], ["polite"])
define(Histogram, "x")
"""
RUDE = """
define(Counter, "pallas_send_message_total", ["agent", "outcome"], ["polite", "ok"])
define(Gauge, "pallas.up")
define(Gauge, "pallas_worker_state", ["agent", "state"], ["polite", "ready"])
define(Gauge, "process_resident_memory_bytes")
define(Counter, "jobs.done", ["agent"], ["rude"])
define(Gauge, "jobs_done_total")
define(Counter, "jobs", ["http.method", "http_method"], ["GET", "PUT"])
for suffix in ("_bucket", "_count", "_sum", "_created", "_info"):
    define(Gauge, "x" + suffix)
define(Summary, "x")
define(Gauge, "odd.value", ["v.w"], ["\\x00\\r\\n\\\"\\\\ \\u202e}}{{"])
Gauge("not_a_number", "Some.", registry=None).set(float("nan"))
Gauge("endless", "Some.", registry=None).set(float("inf"))
define(Gauge, "x" * 300)
many = Counter("many", "Some.", ["n"], registry=None)
for number in range(11_000):
    many.labels(str(number)).inc()
"""


def answer(asked: Asked) -> Turn:
    """A tool call where one is asked for, else many tokens."""
    if "CALL" in asked.user and not asked.tool_results:
        return by_request(asked)
    return Turn(text="well", usage=Usage(output=1_000_000))


class Watched:
    """The fleet, what it talks to, and the Prometheus that watches it."""

    def __init__(self, stack: ExitStack, directory: Any) -> None:
        self.search: RunningDownstream = stack.enter_context(run_downstream(name="search"))
        self.llm = stack.enter_context(run_llm_stub(answer=answer))
        self.deployment: Deployment = make_deployment(directory / "fleet", "counted", "flapping")
        deployment = self.deployment
        deployment.settings = {
            "openai": {"api_key": "no-key", "base_url": self.llm.openai_url},
            "anthropic": {"api_key": "no-key", "base_url": "http://127.0.0.1:9"},
            "llm_retries": 0,
        }
        deployment.servers = {"search": {"transport": "http", "url": self.search.url}}
        deployment.add("broken", "does_not_import")
        deployment.add("loop", "crashes", max_failures=1000)
        deployment.add("stuck", liveness_misses=0)
        self.add(
            "talker", TALKER, model="openai.stub-model", servers=["search"], max_concurrency=1, max_queue=1
        )
        self.add("mute", TALKER, model="anthropic.claude-sonnet-4-5", servers=[])
        self.add("fat", FAT, limit=LIMIT, used=137 * 2**20, memory_limit=LIMIT)
        with_gateway(deployment, workers="open")
        self.fleet = stack.enter_context(Fleet(deployment))
        self.fleet.wait("counted", "flapping", "stuck", "talker", "mute", "fat")
        target = deployment.registry.removeprefix("http://")
        self.prometheus: Prometheus = stack.enter_context(run_prometheus(directory, target, short(rules())))

    def add(self, name: str, source: str, **fields: Any) -> None:
        """An agent with a module of its own; what is in the source goes there, the rest into agents.yaml."""
        inside = {key: fields.pop(key) for key in ("model", "servers", "limit", "used") if key in fields}
        self.deployment.add(name, **fields)
        (self.deployment.directory / "agents" / f"{name}.py").write_text(source.format(name=name, **inside))


def short(written: list[dict[str, Any]]) -> dict[str, Any]:
    """The rules with what takes minutes made short."""
    made = []
    for rule in written:
        expression = re.sub(r"\[(10m|15m|1h)\]", "[1m]", rule["expr"])
        if (threshold := THRESHOLDS.get(rule["alert"])) is not None:
            assert threshold[0] in expression
            expression = expression.replace(*threshold)
        made.append({**rule, "expr": expression, "for": "0s"})
    return {"groups": [{"name": "pallas", "rules": made}]}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with ExitStack() as stack:
        yield Watched(stack, tmp_path_factory.mktemp("watched"))


def test_counts_over_kills_equal_the_clients_own_to_the_unit(watched: Watched) -> None:
    prometheus, fleet = watched.prometheus, watched.fleet
    series = 'pallas_send_message_total{agent="counted", outcome="ok"}'

    def counted() -> float | None:
        """Also while a scrape takes longer than Prometheus waits, which it remembers as one without any series."""
        return prometheus.one(f"last_over_time({series}[5m])")

    prometheus.until(lambda: counted() is not None, "a scrape")
    before = counted()
    assert before is not None
    made = 0
    for round_ in range(4):
        for _ in range(5 + round_):
            asyncio.run(send_message(watched.deployment.url("counted"), "count me"))
            made += 1
        if round_ < 3:
            fleet.kill("counted")
    prometheus.scraped()
    prometheus.until(lambda: counted() == before + made, f"{before} and {made} more")
    increase = prometheus.one(f"increase({series}[5m])")
    assert increase is not None
    assert made <= increase + 0.5  # it extrapolates to the window's ends
    # One that took all its time is the machine's affair; a refused or a wrong one takes next to none.
    in_order = "(up == 1 or scrape_duration_seconds > bool 0.9)"
    assert prometheus.one(f"min_over_time({in_order}[5m:1s])") == 1, "no scrape failed"


def test_names_of_one_agent_cost_itself_only(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet")
    for name, names in (("polite", POLITE), ("rude", RUDE)):
        deployment.add(name)
        source = NAMES.format(name=name, names=names)
        (deployment.directory / "agents" / f"{name}.py").write_text(source)
    deployment.write()
    url = f"{deployment.registry}/metrics"
    with Fleet(deployment) as fleet:
        fleet.wait()
        asyncio.run(send_message(deployment.url("polite"), "count me"))
        plain = httpx.get(url, headers={"accept": "text/plain"}, timeout=60)
        assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
        # What it finds fault with is style alone: a page that it cannot read is an error.
        assert "error" not in (found := promtool("check", "metrics", given=plain.text)), found
        target = url.removeprefix("http://").removesuffix("/metrics")
        with run_prometheus(tmp_path, target, {"groups": []}) as prometheus:
            prometheus.until(lambda: prometheus.one("up") == 1, "a scrape that succeeds")
            for query, value in {
                'pallas_send_message_total{agent="polite",outcome="ok"}': 1,
                'pallas_worker_state{agent="polite",state="ready"}': 1,
                "pallas_up": 1,
                "jobs_done_total": 7,
                "x_sum": 7,
                "x_count": 1,
                "x_info": 7,
                "odd_value": 7,
                "endless": float("inf"),
                "count(not_a_number != not_a_number)": 1,
                "count(many_total)": 10_000,
                "process_resident_memory_bytes > bool 1e6": 1,
            }.items():
                prometheus.until(partial(prometheus.has, query, value), query)
            assert prometheus.duplicates() == 0
        messages = [record["message"] for record in fleet.records() if record["level"] == "WARNING"]
        for name in ("pallas_send_message", "pallas.up", "jobs.done", "jobs_done_total", "jobs", "x_bucket"):
            assert len([said for said in messages if f"'{name}' is left out" in said]) == 1, name


def test_every_query_of_the_dashboard_is_answered(watched: Watched) -> None:
    await_gateway(watched.fleet)
    human, stranger = door(watched.fleet), door(watched.fleet, "no-token")
    agent = door(watched.fleet, make_token(watched.fleet, "talker", agent="talker"))
    for fault in (None, Fault(status=503)) * 2:  # a rate needs two samples
        watched.search.fault = fault
        asyncio.run(send_message(watched.deployment.url("talker"), 'CALL search__echo {"text": "hello"}'))
        agent.tool("search__echo", text="hello")
        human.tool("agents_list")
        stranger.ask("tools/list")
        watched.prometheus.scraped()
    watched.search.fault = None
    variables = {"__rate_interval": "1m", "__range": "1m", "price_input": "3", "price_output": "15"}
    variables |= {"deployment": ".*", "agent": ".*"}
    for query in queries():
        asked = re.sub(r"\$(\w+)", lambda found: variables[found[1]], query)
        watched.prometheus.until(functools.partial(watched.prometheus.query, asked), query)


def test_each_alert_fires_when_it_is_caused(watched: Watched) -> None:
    prometheus, fleet, url = watched.prometheus, watched.fleet, watched.deployment.url
    fired: set[tuple[str, str]] = set()

    def fires(*alerts: tuple[str, str]) -> None:
        def seen() -> bool:
            fired.update(prometheus.firing())
            return fired.issuperset(alerts)

        prometheus.until(seen, f"{set(alerts) - fired} of {prometheus.firing()}")

    fires(
        ("PallasAgentFailed", "broken"), ("PallasCrashLoop", "loop"), ("PallasLLMProviderDown", "anthropic")
    )
    assert fleet.ctl("stop", "loop").returncode == 0

    os.kill(fleet.agent("stuck")["pid"], signal.SIGSTOP)
    watched.search.fault = Fault(status=503)
    asyncio.run(call(url("fat"), "send_message", message="***CALL_TOOL eat {}"))
    watched.llm.loopback.fault = lambda _: Fault(status=400)
    for _ in range(3):
        failed, _text = asyncio.run(call(url("talker"), "send_message", message="please fail"))
        assert failed
    fires(("PallasErrorRate", "talker"))

    for verb in ("stop", "start", "stop", "start"):
        assert fleet.ctl(verb, "flapping").returncode == 0
        prometheus.scraped()
    fires(("PallasFlapping", "flapping"))

    watched.llm.loopback.fault = lambda _: Fault(delay=0.5)
    asyncio.run(send_message(url("talker"), "slowly"))
    fires(("PallasLatency", "talker"), ("PallasTokenBurn", ""))

    async def crowd() -> None:
        watched.llm.loopback.fault = lambda _: Fault(hold=True)
        calls = [asyncio.create_task(call(url("talker"), "send_message", message="wait")) for _ in range(2)]
        await asyncio.to_thread(fires, ("PallasQueueFull", "talker"))
        watched.llm.loopback.fault = None
        watched.llm.loopback.release()
        await asyncio.gather(*calls)

    asyncio.run(crowd())
    fires(
        ("PallasProbesStale", "stuck"), ("PallasDownstreamDown", "talker"), ("PallasMemoryNearLimit", "fat")
    )

    os.kill(fleet.agent("stuck")["pid"], signal.SIGCONT)
    assert fleet.stop() == 0
    fires(("PallasDown", ""))
    of_agents = {rule["alert"] for rule in rules() if not rule["alert"].startswith("PallasGateway")}
    assert {name for name, _ in fired if not name.startswith("PallasGateway")} == of_agents


def test_alerts_of_the_gateway_fire_when_they_are_caused(tmp_path: Path) -> None:
    """All but that of the store, which takes a database that is gone."""
    deployment = make_deployment(tmp_path / "fleet", "jarvis")
    deployment.servers = {"dead": {"transport": "http", "url": "http://127.0.0.1:9/mcp"}}
    deployment.add("talker", servers=("dead",))
    with_gateway(deployment, max_failures=1000)
    with Fleet(deployment) as fleet:
        await_gateway(fleet)
        human, agent = door(fleet), door(fleet, make_token(fleet, "a", agent="talker"))
        target = deployment.registry.removeprefix("http://")
        with run_prometheus(tmp_path, target, short(rules())) as prometheus:

            def fires(alert: str, cause: Callable[[], object]) -> None:
                def is_seen() -> bool:
                    cause()
                    prometheus.scraped()
                    return f"PallasGateway{alert}" in {name for name, _ in prometheus.firing()}

                prometheus.until(is_seen, alert)

            fires("ServerFailing", lambda: agent.tool("dead__echo"))
            fires("ErrorRate", lambda: human.tool("no_such_tool"))
            fires("Denied", lambda: [httpx.get(f"{human.url}/api/v1/audit") for _ in range(100)])
            audit = fleet.state / "audit.jsonl"
            audit.rename(fleet.state / "moved")
            audit.mkdir()
            fires("AuditFailing", lambda: human.tool("agents_list"))
            audit.rmdir()
            for _ in range(5):
                await_gateway(fleet)
                os.kill(fleet.status()["gateway"]["pid"], signal.SIGKILL)
                fleet.await_that(lambda: fleet.status()["gateway"]["state"] != "ready", "it is gone")
            fires("CrashLoop", lambda: None)
            assert fleet.ctl("gateway", "stop").returncode == 0
            fires("Down", lambda: None)
