"""Tracing of a worker: it holds up nothing, and where it is off nothing of it is there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import run_llm_stub
from fakes.loopback import Fault
from fakes.otlp_collector import run_collector
from support.ports import free_ports
from support.worker.conversation.llm import config, spec
from support.worker.process import run_worker
from support.worker.project import call, project, text
from support.worker.secrets import leaked

if TYPE_CHECKING:
    from pathlib import Path


def test_a_collector_that_never_answers_holds_up_neither_calls_nor_the_end(tmp_path: Path) -> None:
    with run_collector(Fault(hold=True)) as collector:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.origin, "OTEL_BSP_SCHEDULE_DELAY": "10"}
        with run_worker(project(tmp_path), environment=environment) as worker:
            assert text(call(worker.url, "auto", "demo", message="first")) == "first"
            collector.wait_for_request()
            assert text(call(worker.url, "auto", "demo", message="second")) == "second"
            assert worker.stop() == 0
        # Only now would it be let go: whoever waited for it would still be waiting.
        collector.release()


def test_a_collector_that_is_not_there_is_told_once(tmp_path: Path) -> None:
    endpoint = f"http://user:secret@127.0.0.1:{free_ports(1)[0]}"
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        "OTEL_BSP_SCHEDULE_DELAY": "10",
    }
    with run_worker(project(tmp_path), environment=environment) as worker:
        for number in range(3):
            assert text(call(worker.url, "auto", "demo", message=f"{number}")) == f"{number}"
        worker.wait_until(lambda it: any("traces are lost" in message for message in it.messages("WARNING")))
        assert worker.stop() == 0
        worker.wait_until(lambda it: it.ended)
        said = [record["message"] for record in worker.records if "trac" in record["message"]]
    assert len([message for message in said if "traces are lost" in message]) == 1
    assert not any("secret" in message for message in said)


@pytest.mark.parametrize("capture", ["true", "false"])
def test_what_was_said_is_on_spans_only_if_that_is_asked_for(tmp_path: Path, capture: str) -> None:
    said, key = "the elephant in the room", "Kq7opaqueKeyOfTheModel"
    with run_collector() as collector, run_llm_stub() as llm:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.origin,
            "OTEL_BSP_SCHEDULE_DELAY": "10",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": capture,
            "OPENAI_API_KEY": key,
        }
        config = f"default_model: openai.stub-model\nopenai: {{base_url: '{llm.openai_url}'}}\n"
        with run_worker(project(tmp_path, config=config), environment=environment) as worker:
            call(worker.url, "auto", "demo", message=f"{said} says {key}")
            spans = collector.wait_for(
                lambda spans: {"openai.chat", "send_message"} <= {s.name for s in spans}
            )
        (turn,) = (span for span in spans if span.name == "openai.chat")
        assert (said in str(turn.attributes)) is (capture == "true")
        assert (said.encode() in collector.raw) is (capture == "true")
        assert leaked(collector.raw, [key]) == []


TOOLS = """
from fast_agent import FastAgent

fast = FastAgent("tests")


def own(text: str) -> str:
    return f"own {text}"


@fast.agent(name="child", instruction="x", servers=["tools"])
async def child(): ...


@fast.agent(name="demo", instruction="x", function_tools=[own], agents=["child"])
async def demo(): ...
"""


@pytest.mark.parametrize("capture", ["true", "false"])
def test_each_tool_call_is_a_span_with_its_arguments_only_if_that_is_asked_for(
    tmp_path: Path, capture: str
) -> None:
    with run_collector() as collector, run_llm_stub() as llm, run_downstream() as tools:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.origin,
            "OTEL_BSP_SCHEDULE_DELAY": "10",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": capture,
        }
        servers = {"tools": {"transport": "http", "url": tools.url}}
        directory = project(tmp_path, agents=TOOLS, servers=servers, config=config(llm))
        inner = json.dumps({"message": 'CALL tools__fail {"text": "the elephant"}'})
        with run_worker(directory, environment=environment, **spec()) as worker:
            call(worker.url, "auto", "demo", message=f'CALL own {{"text": "x"}}\nCALL agent__child {inner}')
            spans = collector.wait_for(lambda spans: "send_message" in {s.name for s in spans})
    named = [(span.name, span) for span in spans if span.name.startswith("execute_tool")]
    found = dict(named)
    assert len(named) == len(found)
    assert {
        name: [span.attributes[f"pallas.{field}"] for field in ("agent", "server", "outcome")]
        for name, span in found.items()
    } == {
        "execute_tool own": ["demo", "own", "ok"],
        "execute_tool agent__child": ["demo", "own", "ok"],
        "execute_tool tools__fail": ["child[1]", "tools", "error"],
    }
    inside, around = found["execute_tool tools__fail"], found["execute_tool agent__child"]
    assert inside.trace == around.trace
    assert inside.attributes["gen_ai.tool.name"] == "tools__fail"
    assert (b"elephant" in collector.raw) is (capture == "true")
    arguments = inside.attributes.get("gen_ai.tool.call.arguments")
    assert arguments == ('{"text": "the elephant"}' if capture == "true" else None)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "grpc",
            "OTEL_EXPORTER_OTLP_PROTOCOL is grpc; set it to http/protobuf",
        ),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100000", "tracing is off: max_export_batch_size"),
    ],
)
def test_what_cannot_be_done_is_told_and_turns_tracing_off(
    tmp_path: Path, variable: str, value: str, said: str
) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", variable: value}
    with run_worker(project(tmp_path), environment=environment) as worker:
        assert text(call(worker.url, "auto", "demo", message="works")) == "works"
        worker.wait_until(lambda it: any(said in message for message in it.messages("WARNING")))


def test_where_it_is_off_nothing_of_it_is_loaded() -> None:
    program = """
import sys
import pallas.daemon, pallas_supervisor.processes.zygote_client
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
import pallas_worker.process.run, pallas_worker.process.serve
assert "opentelemetry.sdk.trace" not in sys.modules
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
