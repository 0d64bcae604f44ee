"""Traces of a real fleet, read back from an OTLP collector: calls over three processes, and starts."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import yaml
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from fakes.downstream import RunningDownstream, run_downstream
from fakes.llm_stub import LlmStub, run_llm_stub
from fakes.otlp_collector import Collector, Span, run_collector
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.worker.secrets import leaked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_types import CallToolResult

    from support.fleet.deployment import Deployment

KEY = "sk-stub-0123456789abcdef"
BEARER = "tok-4f1b0d7c9a3e5f60"
COLLECTORS = "key-of-the-collector-77"
SAID = "the elephant in the room"

AGENT = """\
from fast_agent import FastAgent

fast = FastAgent("test", parse_cli_args=False)


@fast.agent(name="{name}", instruction="Do as you are told.", servers={servers!r})
async def agent() -> None:
    ...
"""


@dataclass
class Stage:
    """What runs: jarvis → research → tools, an LLM, and a collector."""

    fleet: Fleet
    deployment: Deployment
    collector: Collector
    llm: LlmStub
    tools: RunningDownstream

    def trace(self, trace: str, *services: str) -> list[Span]:
        """The trace's spans, once these have sent theirs: what a service was asked for ends last."""

        def served(spans: list[Span]) -> set[str]:
            return {s.service for s in spans if (s.trace, s.name) == (trace, "tools/call send_message")}

        spans = self.collector.wait_for(lambda spans: served(spans) >= set(services))
        return [span for span in spans if span.trace == trace]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with run_collector() as collector, run_llm_stub() as llm, run_downstream() as tools:
        deployment = make_deployment(tmp_path_factory.mktemp("traced"))
        deployment.add("research")
        deployment.add("jarvis", depends_on=["research"])
        for name, server in (("research", "tools"), ("jarvis", "research")):
            module = deployment.directory / "agents" / f"{name}.py"
            module.write_text(AGENT.format(name=name, servers=[server]))
        servers = {
            "tools": {"transport": "http", "url": tools.url, "forward_inbound_auth": True},
            "research": {
                "transport": "http",
                "url": deployment.url("research"),
                "forward_inbound_auth": True,
            },
        }
        config: dict[str, Any] = {
            "default_model": "openai.stub-model",
            "openai": {"api_key": KEY, "base_url": llm.openai_url},
            "llm_retries": 0,
            "mcp": {"servers": servers},
            "otel": {"enabled": True, "otlp_endpoint": "http://127.0.0.1:9/v1/traces"},
        }
        (deployment.directory / "fastagent.config.yaml").write_text(yaml.safe_dump(config))
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.origin,
            "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={COLLECTORS}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=tests",
        }
        with Fleet(deployment, env=environment) as fleet:
            fleet.wait()
            yield Stage(fleet, deployment, collector, llm, tools)


def ask(
    stage: Stage, message: str, *, meta: dict[str, Any] | None = None, headers: dict[str, str] | None = None
) -> CallToolResult:
    """Call jarvis, with this in the request's `_meta` and these HTTP headers."""

    async def run() -> CallToolResult:
        given = {"Authorization": f"Bearer {BEARER}", **(headers or {})}
        url = stage.deployment.url("jarvis")
        async with (
            httpx2.AsyncClient(headers=given, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            arguments = {"message": message, "conversation_id": "c-1"}
            return await client.call_tool("send_message", arguments, meta=meta)  # type: ignore[arg-type]  # a plain dict is one

    return asyncio.run(run())


NESTED = "CALL research__send_message " + json.dumps({"message": f'CALL tools__echo {{"text": "{SAID}"}}'})


@pytest.mark.parametrize("carrier", ["_meta", "headers"])
def test_one_call_over_three_processes_is_one_trace(stage: Stage, carrier: str) -> None:
    trace, client = ("a1" * 16, "b2" * 8) if carrier == "_meta" else ("c3" * 16, "d4" * 8)
    context = {"traceparent": f"00-{trace}-{client}-01", "tracestate": "vendor=opaque"}
    other = {"traceparent": f"00-{'ee' * 16}-{'ff' * 8}-01"}
    if carrier == "_meta":
        result = ask(stage, NESTED, meta=context, headers={**other, "X-Request-Id": "from-the-proxy"})
    else:
        result = ask(stage, NESTED, headers=context)
    assert not result.is_error, result
    spans = stage.trace(trace, "jarvis", "research")

    by_id = {span.id: span for span in spans}
    roots = [span for span in spans if span.parent not in by_id]
    served = [span for span in spans if span.name == "tools/call send_message"]
    assert [(root.name, root.parent) for root in roots if root in served] == [(served[0].name, client)]
    assert all(span.parent == client for span in roots), roots

    processes = {span.resource["process.pid"] for span in spans}
    assert len(processes) == 2, "jarvis and research; the client is the third"
    assert {span.service for span in spans} == {"jarvis", "research"}
    assert {span.resource["deployment.environment.name"] for span in spans} == {"tests"}
    assert {span.state for span in spans} == {"vendor=opaque"}
    assert not any(span.failed for span in spans)

    def chain(span: Span) -> list[str]:
        names = []
        while True:
            names.append(f"{span.service}: {span.name}")
            if span.parent not in by_id:
                return names[::-1]
            span = by_id[span.parent]

    echo = next(span for span in spans if span.name == "MCP send tools/call echo")
    assert [name for name in chain(echo) if "Agent:" not in name and "MCP Tool" not in name] == [
        "jarvis: tools/call send_message",
        "jarvis: send_message",
        "jarvis: execute_tool research__send_message",
        "jarvis: MCP send tools/call send_message",
        "research: tools/call send_message",
        "research: send_message",
        "research: execute_tool tools__echo",
        "research: MCP send tools/call echo",
    ]
    turns = [span for span in spans if span.attributes.get("gen_ai.request.model") == "stub-model"]
    assert sorted(span.service for span in turns) == ["jarvis", "jarvis", "research", "research"]
    assert {chain(turn)[1] for turn in turns} == {"jarvis: send_message"}
    assert all(turn.attributes["gen_ai.usage.input_tokens"] > 0 for turn in turns)

    last = next(r for r in reversed(stage.tools.requests) if r.rpc_method == "tools/call")
    for carried in (last.json["params"]["_meta"], last.headers):
        assert carried["traceparent"] == f"00-{trace}-{echo.id}-01"
        assert carried["tracestate"] == "vendor=opaque"

    records = [r for r in stage.fleet.records() if r.get("trace_id") == trace]
    ended = [r for r in records if r["message"].startswith("send_message")]
    assert [(r["agent"], r.get("conversation_id")) for r in ended] == [("research", None), ("jarvis", "c-1")]
    calls = {span.service: span for span in spans if span.name == "send_message"}
    for record in ended:
        assert record["request_id"] == calls[record["agent"]].attributes["pallas.request_id"]
    if carrier == "_meta":
        assert ended[-1]["request_id"] == "from-the-proxy"


def test_a_call_without_a_trace_begins_one_of_its_own(stage: Stage) -> None:
    before = {span.trace for span in stage.collector.spans}
    for number in range(2):
        assert not ask(stage, f"hello {number}").is_error

    def roots(spans: list[Span]) -> list[Span]:
        return [s for s in spans if s.trace not in before and s.name == "tools/call send_message"]

    spans = stage.collector.wait_for(lambda spans: len(roots(spans)) == 2)
    assert [root.parent for root in roots(spans)] == ["", ""]
    assert len({root.trace for root in roots(spans)}) == 2


def test_a_failure_is_on_the_spans_and_its_text_is_in_the_log_alone(stage: Stage) -> None:
    trace = "ab" * 16
    result = ask(
        stage,
        "CALL research__send_message " + json.dumps({"message": "", "history": []}),
        headers={"traceparent": f"00-{trace}-{'12' * 8}-01"},
    )
    assert not result.is_error, "the model was told of the failure, and answered"
    spans = stage.trace(trace, "jarvis", "research")
    failed = {(span.service, span.name) for span in spans if span.failed}
    assert ("research", "tools/call send_message") in failed
    assert ("jarvis", "send_message") not in failed
    assert not any("exception.message" in span.attributes for span in spans)


def test_starts_are_traces_with_their_stages(stage: Stage) -> None:
    spans = stage.collector.wait_for(lambda spans: any(span.name == "supervisor.start" for span in spans))
    (whole,) = (span for span in spans if span.name == "supervisor.start")
    assert (whole.service, whole.parent) == ("pallas", "")
    assert whole.attributes == {"pallas.agents": 2, "pallas.agents.ready": 2}
    assert whole.resource["service.namespace"] == "test-fleet"
    starts = {
        s.attributes["pallas.agent"]: s for s in spans if s.name == "agent.start" and s.parent == whole.id
    }
    assert set(starts) == {"research", "jarvis"}
    for start in starts.values():
        stages = sorted((s for s in spans if s.parent == start.id), key=lambda span: span.begin)
        assert [one.name for one in stages] == ["fork", "import", "create", "serve", "ready"]
        assert (stages[0].begin >= start.begin, stages[-1].end <= start.end) == (True, True)
        assert not start.failed
    assert starts["research"].end <= starts["jarvis"].begin, "in the order of depends_on"


def test_the_zygote_stays_fit_to_fork(stage: Stage) -> None:
    zygote = stage.fleet.zygote()
    assert zygote.num_threads() == 1
    assert not [r for r in stage.fleet.records() if r["logger"] == "pallas.supervisor.zygote"]


def test_neither_what_was_said_nor_a_secret_leaves_in_a_span(stage: Stage) -> None:
    ask(stage, NESTED, headers={"traceparent": f"00-{'9c' * 16}-{'9d' * 8}-01"})
    stage.trace("9c" * 16, "jarvis", "research")
    raw = stage.collector.raw
    assert stage.llm.asked, "the model was asked"
    assert leaked(raw, [SAID, "Do as you are told", KEY, BEARER, COLLECTORS]) == []
    assert leaked(stage.fleet.log_file.read_bytes(), [KEY, BEARER, COLLECTORS]) == []


def test_what_is_made_ahead_listed_or_probed_belongs_to_no_trace(stage: Stage) -> None:
    before = {span.trace for span in stage.collector.spans}
    assert not ask(stage, "begins a trace").is_error
    stage.collector.wait_for(lambda spans: any(s.parent == "" and s.trace not in before for s in spans))
    probes = [r for r in stage.tools.requests if r.rpc_method in ("server/discover", "initialize")]
    assert probes, "instances were made ahead, and the server was probed"
    roots = {(span.service, span.name) for span in stage.collector.spans if span.parent == ""}
    assert roots == {("pallas", "supervisor.start"), ("jarvis", "tools/call send_message")}
