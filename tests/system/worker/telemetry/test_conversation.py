"""The conversation's id: on every log record of its call and on the call's span, and nowhere else."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import structlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from fakes.downstream import run_downstream
from fakes.llm_stub import run_llm_stub
from fakes.loopback import serve
from pallas_common.logs.levels import Levels
from pallas_common.logs.own_loggers import give_handler
from pallas_common.logs.records import parse_record
from pallas_common.logs.setup import configure_logging, get_logger
from pallas_worker.telemetry.correlation import LENGTH, CorrelationFilter, bound, request_id
from support.worker.conversation.llm import config, spec
from support.worker.process import run_worker
from support.worker.project import DEMO, MODES, ask, call, project, text

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client import Client
    from starlette.requests import Request

    from fakes.loopback import Recorded

TALKING = """
import asyncio
import logging

from fast_agent import FastAgent
from fast_agent.agents import McpAgent
from fast_agent.mcp.prompt import Prompt

fast = FastAgent("tests")
log = logging.getLogger("some.library")


class Talking(McpAgent):
    async def generate(self, messages, request_params=None, tools=None):
        said = messages[-1].all_text()
        log.warning("one: %s", said)
        await asyncio.create_task(self.later(said))
        await asyncio.to_thread(log.warning, "three: %s", said)
        log.warning("four: %s", said, extra={"conversation_id": "the library's own"})
        return Prompt.assistant(said)

    async def later(self, said):
        await asyncio.sleep(0)
        log.warning("two: %s", said)


@fast.custom(Talking, name="demo")
async def demo(): ...
"""


def test_every_record_of_a_call_carries_the_id_of_its_own_conversation(tmp_path: Path) -> None:
    with run_worker(project(tmp_path, agents=TALKING)) as worker:

        async def act(client: Client) -> None:
            async def one(number: int) -> None:
                more = {"conversation_id": f"c-{number}"} if number else {}
                result = await client.call_tool("demo", {"message": f"said {number}", **more})
                assert text(result) == f"said {number}"

            await asyncio.gather(*(one(number) for number in range(8)))

        for mode in MODES:
            ask(worker.url, mode, act)
        assert worker.stop() == 0
        worker.wait_until(lambda it: it.ended)
        records = [record for record in worker.records if record["name"] == "some.library"]
        assert len(records) == 2 * 8 * 4
        for record in records:
            number = int(record["message"].rpartition(" ")[2])
            expected = f"c-{number}" if number else None
            if record["message"].startswith("four"):
                expected = "the library's own"
            assert record["conversation_id"] == expected, record
        begun = [record for record in worker.records if record["message"].startswith("send_message")]
        assert {record["conversation_id"] for record in begun} == {None, *(f"c-{n}" for n in range(1, 8))}


def test_connections_made_ahead_log_for_the_call_that_uses_them(tmp_path: Path) -> None:
    logger = "mcp.client.streamable_http"  # it logs in the tasks of connections
    loud = f"import logging\nlogging.getLogger({logger!r}).setLevel(logging.DEBUG)\n"
    with run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        agents = loud + DEMO.format(servers=["tools"])
        with run_worker(project(tmp_path, agents=agents, servers=servers)) as worker:
            for number in range(8):
                message = f'***CALL_TOOL tools__echo {{"text": "said {number}"}}'
                more = {"conversation_id": f"c-{number}"} if number % 2 else {}
                call(worker.url, "auto", "demo", message=message, **more)
            assert worker.stop() == 0
            worker.wait_until(lambda it: it.ended)
        sent: dict[int, set[str | None]] = {}
        for record in worker.records:
            if record["name"] == logger and (said := re.search(r"said (\d)", record["message"])):
                sent.setdefault(int(said[1]), set()).add(record["conversation_id"])
        assert sent == {number: {f"c-{number}" if number % 2 else None} for number in range(8)}


def test_the_id_is_on_the_span_and_in_the_log_and_nowhere_else(tmp_path: Path) -> None:
    async def take(_: Request) -> Response:
        return Response()

    collector = Starlette(routes=[Route("/v1/traces", take, methods=["POST"])])
    secret = "conversation-4711"
    with serve(collector) as traces, run_llm_stub() as stub, run_downstream() as tools:
        lines = config(stub) + f"otel: {{enabled: true, otlp_endpoint: '{traces.origin}/v1/traces'}}\n"
        servers = {"tools": {"transport": "http", "url": tools.url}}
        directory = project(tmp_path, servers=servers, config=lines)
        with run_worker(directory, environment={"OTEL_BSP_SCHEDULE_DELAY": "10"}, **spec()) as worker:
            message = 'CALL tools__echo {"text": "x"}'
            answer = call(worker.url, "auto", "demo", message=message, conversation_id=secret)
            assert secret not in answer.model_dump_json()
            assert secret not in httpx.get(f"{worker.origin}/metrics").text
            # Not after the end: the last spans have a second, and then they are given up.
            traces.wait_for(lambda exported: any(secret in str(span) for span in spans(exported)))
            assert worker.stop() == 0
            worker.wait_until(lambda it: it.ended)
            marked = [record for record in worker.records if record["conversation_id"] == secret]
            assert any(record["message"].startswith("send_message") for record in marked)
            assert not any(secret in record["message"] for record in worker.records)
        assert not any(secret.encode() in request.body for request in (*stub.requests, *tools.requests))
        assert not any(secret in str(request.headers) for request in (*stub.requests, *tools.requests))
    marked_spans = [span for span in spans(traces.requests) if secret in str(span)]
    assert [span.name for span in marked_spans] == ["tools/call demo"]
    attributes = {one.key: one.value.string_value for one in marked_spans[0].attributes}
    assert attributes["conversation_id"] == secret


def spans(exported: list[Recorded]) -> list[Any]:
    """The spans in what the exporter has sent."""
    requests = [ExportTraceServiceRequest.FromString(request.body) for request in exported]
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


@pytest.mark.parametrize("given", ["req-1", "a.b:c_D", "x" * 64])
def test_a_request_keeps_the_id_that_it_has(given: str) -> None:
    assert request_id({"x-request-id": given}) == given


@pytest.mark.parametrize("given", ["", "x" * 65, "two words", '{"a": 1}', "é", "-o"])
def test_an_id_that_is_none_is_replaced(given: str) -> None:
    made = {request_id({"x-request-id": given}) for _ in range(50)}
    assert len(made) == 50
    assert all(re.fullmatch(r"[0-9a-f]{12}", one) for one in made)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def test_in_the_one_log_format_both_kinds_of_loggers_carry_it() -> None:
    root = logging.getLogger()
    saved = root.handlers[:], root.level
    handler = _Lines()
    handler.addFilter(CorrelationFilter())
    try:
        configure_logging(handler, Levels("INFO", "INFO"), {"agent": "a"})
        with bound(conversation="x" * 500):
            logging.getLogger("library").info("plain")
            get_logger("pallas.x").info("structured", own=1)
        with bound(request="r-1"), bound(conversation="c-1"):
            logging.getLogger("library").info("both")
            get_logger("pallas.x").info("both of ours")
        with bound():
            logging.getLogger("library").info("without")
        logging.getLogger("library").info("after")
    finally:
        root.handlers[:] = saved[0]
        root.setLevel(saved[1])
        give_handler(None)
    records = [parse_record(line.encode()) or {} for line in handler.lines]
    ids = {record["message"]: record.get("conversation_id") for record in records}
    assert ids == {
        "plain": "x" * LENGTH,
        "structured": "x" * LENGTH,
        "without": None,
        "after": None,
        "both": "c-1",
        "both of ours": "c-1",
    }
    requests = {record["message"]: record["request_id"] for record in records if "request_id" in record}
    assert requests == {"both": "r-1", "both of ours": "r-1"}
    assert structlog.contextvars.get_contextvars() == {}
    assert all(re.fullmatch(r"\{.*\}", line) for line in handler.lines)
