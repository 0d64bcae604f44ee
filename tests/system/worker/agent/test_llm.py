"""A worker with a real LLM provider's client against a fake of the provider on loopback."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from typing import TYPE_CHECKING

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, Call, LlmStub, Turn, Usage, run_llm_stub
from pallas_common.protocol.reports import HealthReport, ReadyReport
from support.worker.census import series, until
from support.worker.conversation.llm import KEY, config, metric, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import MODES, ask, bearing, call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp.client import Client

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
PARENT = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="child", instruction="You are the child.", servers=["tools"])
async def child(): ...


@fast.agent(name="demo", instruction="You are the parent.", agents=["child"], default=True)
async def demo(): ...
"""


@pytest.fixture(scope="module")
def worker(stub: LlmStub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    with run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        directory = project(tmp_path_factory.mktemp("project"), servers=servers, config=config(stub))
        with run_worker(directory, **spec()) as running:
            yield running


def test_the_model_is_published(worker: RunningWorker) -> None:
    (ready,) = [report for report in worker.reports if isinstance(report, ReadyReport)]
    assert ready.model == "openai.stub-model"
    assert ready.capabilities == spec()["capabilities"]
    (part,) = ready.parts
    assert (part.name, part.model, part.servers) == ("demo", "openai.stub-model", ("tools",))
    assert "tools__echo" in part.tools
    assert [(server.name, server.transport) for server in ready.servers] == [("tools", "http")]


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_loop(worker: RunningWorker, mode: str) -> None:
    result = call(worker.url, mode, "demo", message='CALL tools__echo {"text": "deep"}')
    assert text(result).startswith("tools said: ")
    assert "deep" in text(result)


def test_history_and_images_reach_the_model(worker: RunningWorker, stub: LlmStub) -> None:
    image = {"data": PNG, "mime_type": "image/png"}
    history = [
        {"role": "user", "content": "look", "images": [image]},
        {"role": "assistant", "content": "I see"},
    ]
    result = call(worker.url, "auto", "demo", message="and now?", images=[image], history=history)
    assert text(result) == "echo: and now?"
    asked = stub.asked[-1]
    assert asked.images == 2
    roles = [message["role"] for message in asked.body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]


def test_turns_and_tokens_are_counted(worker: RunningWorker, stub: LlmStub) -> None:
    labels = 'agent="demo",kind="{}",model="stub-model"'
    kinds = ("input", "output", "cache_hit", "reasoning")
    names = [f"pallas_llm_tokens_total{{{labels.format(kind)}}}" for kind in kinds]
    turns = 'pallas_llm_turns_total{agent="demo",model="stub-model"}'
    before = [metric(worker, name) for name in (*names, turns)]
    stub.script(Turn(text="counted", usage=Usage(input=70, output=30, cached=20, reasoning=10)))
    assert text(call(worker.url, "auto", "demo", message="x")) == "counted"
    after = [metric(worker, name) for name in (*names, turns)]
    assert [b - a for a, b in zip(before, after, strict=True)] == [70, 30, 20, 10, 1]


@pytest.mark.parametrize("mode", MODES)
def test_a_failing_model_is_an_error_result_without_secrets(
    worker: RunningWorker, stub: LlmStub, mode: str
) -> None:
    errors = 'pallas_send_message_total{agent="demo",outcome="error"}'
    before = metric(worker, errors)
    stub.script(Turn(status=400, text=f"Incorrect API key provided: {KEY}"))
    result = call(worker.url, mode, "demo", message="x")
    assert result.is_error
    assert "refused the request as invalid" in text(result)
    assert "Incorrect API key provided" not in text(result)
    said = "Incorrect API key provided: [redacted]"
    worker.wait_until(lambda it: any(said in line for line in it.messages("WARNING")))
    assert metric(worker, errors) == before + 1


def test_a_vanished_provider_is_an_error_result_and_degrades(tmp_path: Path) -> None:
    with run_llm_stub() as stub:
        directory = project(tmp_path, config=config(stub))
        with run_worker(directory, **spec()) as worker:
            assert text(call(worker.url, "auto", "demo", message="x")) == "echo: x"
            stub.loopback.stop()
            result = call(worker.url, "auto", "demo", message="x")
            assert result.is_error
            assert "Traceback" not in text(result)


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("openai.stub-model", "openai"),
        ("anthropic.stub-model", "anthropic"),
        ("generic.stub-model", "generic"),
    ],
)
def test_a_provider_that_refuses_calls_is_down_until_one_is_answered(
    tmp_path: Path, model: str, provider: str
) -> None:
    """Though its list of models is fine, or nobody can be asked for one."""
    with run_llm_stub() as stub:
        urls = {"openai": stub.openai_url, "anthropic": stub.anthropic_url, "generic": stub.openai_url}
        sections = f"{provider}: {{api_key: {KEY}, base_url: '{urls[provider]}'}}\n"
        directory = project(tmp_path, config=f"default_model: {model}\n{sections}llm_retries: 0\n")
        with run_worker(directory, probe_interval=0.2, **spec() | {"default_model": model}) as worker:

            def told() -> list[HealthReport]:
                return [report for report in worker.reports if isinstance(report, HealthReport)]

            def degraded() -> int | None:
                """The place of the first report that is not `ok`."""
                return next((place for place, report in enumerate(told()) if report.status != "ok"), None)

            stub.script(Turn(status=400, text="the request's own fault"))
            assert call(worker.url, "auto", "demo", message="x").is_error
            assert json.loads(text(call(worker.url, "auto", "get_health")))["status"] == "ok"
            stub.script(Turn(status=401, text=f"Incorrect API key provided: {KEY}"))
            assert call(worker.url, "auto", "demo", message="x").is_error
            # The round after the next one began since then, and has found the provider well again.
            worker.wait_until(lambda _: (place := degraded()) is not None and len(told()) > place + 2)
            for report in told()[degraded() :]:
                assert (report.status, report.message) == (
                    "degraded",
                    f"LLM: {provider}: calls fail: HTTP 401: the API key is not accepted",
                )
                assert report.provider is not None
                assert (report.provider.name, report.provider.up) == (provider, False)
            assert metric(worker, f'pallas_llm_provider_up{{provider="{provider}"}}') == 0
            assert text(call(worker.url, "auto", "demo", message="x")) == "echo: x"
            assert json.loads(text(call(worker.url, "auto", "get_health")))["status"] == "ok"
            assert metric(worker, f'pallas_llm_provider_up{{provider="{provider}"}}') == 1


def test_pieces_that_repeat_are_all_in_the_answer(tmp_path: Path) -> None:
    with run_llm_stub(answer=lambda _: Turn(text="1 1 1 apples")) as stub:
        section = f"generic: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
        directory = project(tmp_path, config=f"default_model: generic.stub-model\n{section}")
        with run_worker(directory, **spec() | {"default_model": "generic.stub-model"}) as worker:
            assert text(call(worker.url, "auto", "demo", message="x")) == "1 1 1 apples"


def test_a_missing_key_is_an_error_of_health(tmp_path: Path) -> None:
    directory = project(tmp_path, config="default_model: openai.stub-model\n")
    with run_worker(directory, **spec()) as worker:
        result = call(worker.url, "auto", "demo", message="x")
        assert result.is_error
        assert "key" in text(result).lower()
        health = text(call(worker.url, "auto", "get_health"))
        assert '"status": "error"' in health
        assert "no API key is configured for OpenAI: set OPENAI_API_KEY in .env" in health


def test_a_model_without_vision(tmp_path: Path) -> None:
    with run_llm_stub() as stub:
        directory = project(tmp_path, config=config(stub))
        with run_worker(directory, **spec(vision=False)) as worker:
            image = {"data": PNG, "mime_type": "image/png"}
            refused = call(worker.url, "auto", "demo", message="x", images=[image])
            assert refused.is_error
            assert text(refused) == "images: this agent's model has no vision"
            history = [{"role": "user", "content": "earlier", "images": [image]}]
            assert text(call(worker.url, "auto", "demo", message="y", history=history)) == "echo: y"
            assert (stub.asked[-1].images, stub.asked[-1].messages) == (0, 3)
            assert (
                "left out, because the model does not take them: 1 image"
                in stub.asked[-1].body["messages"][1]["content"]
            )
            expected = "history[0]: 1 image left out, which the model does not take"
            worker.wait_until(lambda it: expected in it.messages("WARNING"))


def test_agents_as_tools_forward_each_callers_bearer_and_count_all_turns(tmp_path: Path) -> None:
    def answer(asked: Asked) -> Turn:
        if asked.tool_results:
            return Turn(text=" | ".join(asked.tool_results))
        system = next(m["content"] for m in asked.body["messages"] if m["role"] == "system")
        if "parent" in system:
            return Turn(calls=(Call(asked.tools[0], {"message": asked.user}),))
        return Turn(calls=(Call("tools__echo", {"text": re.findall(r"told-\d+", asked.user)[0]}),))

    with run_llm_stub(answer=answer) as stub, run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url, "forward_inbound_auth": True}}
        directory = project(tmp_path, agents=PARENT, servers=servers, config=config(stub))
        with run_worker(directory, **spec()) as worker:

            async def one(number: int) -> None:
                async with bearing(worker.url, f"token-{number}") as client:
                    result = await client.call_tool("demo", {"message": f"told-{number}"})
                    assert f"told-{number}" in text(result)

            async def run() -> None:
                await asyncio.gather(*(one(number) for number in range(8)))

            asyncio.run(run())
            for request in tools.requests:
                if request.rpc_method == "tools/call":
                    told = request.json["params"]["arguments"]["text"]
                    assert request.bearer == told.replace("told", "token")
            assert metric(worker, 'pallas_llm_turns_total{agent="demo",model="stub-model"}') == 8 * 4


@pytest.mark.parametrize("mode", MODES)
def test_a_caller_that_goes_away_ends_the_llm_call(worker: RunningWorker, stub: LlmStub, mode: str) -> None:
    errors = 'pallas_send_message_total{agent="demo",outcome="error"}'
    before = metric(worker, errors)
    asked = len(stub.asked)
    stub.script(Turn(text="never", delay=3600))

    async def act(client: Client) -> None:
        asking = asyncio.create_task(client.call_tool("demo", {"message": "x"}))
        await asyncio.to_thread(stub.loopback.wait_for, lambda _: len(stub.asked) > asked)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    ask(worker.url, mode, act)
    until(worker, lambda page: series(page, errors) == before + 1)
