"""Streamed answers of each provider: whole, in their order, and ended at once when their reader goes away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from fakes.downstream import Fault, Recorded, run_downstream
from fakes.llm_bursts import Bursts, Exchange, answer_of, run_bursts
from fakes.llm_stub import run_llm_stub
from pallas_common.protocol.agent.llm import ModelCapabilities
from support.load.streams import answer_in, streamed, streaming
from support.worker.census import agent, check_nothing_is_left, settle
from support.worker.conversation.llm import config, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PIECES = 2000
KEY = "sk-stub-0123456789"
PROVIDERS = {
    "openai": "openai: {{api_key: {key}, base_url: '{openai}'}}",
    "generic": "generic: {{api_key: {key}, base_url: '{openai}'}}",
    "responses": "responses: {{api_key: {key}, base_url: '{openai}'}}",
    "anthropic": "anthropic: {{api_key: {key}, base_url: '{anthropic}'}}",
}
"""What the configuration says of a provider."""


@pytest.fixture(scope="module")
def bursts() -> Iterator[Bursts]:
    with run_bursts(PIECES) as running:
        yield running


@pytest.fixture(scope="module", params=PROVIDERS)
def worker(
    request: pytest.FixtureRequest, bursts: Bursts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningWorker]:
    settings = PROVIDERS[request.param].format(
        key=KEY, openai=bursts.openai_url, anthropic=bursts.anthropic_url
    )
    model = f"{request.param}.stub-model"
    lines = f"default_model: {model}\n{settings}\nllm_retries: 0\n"
    directory = project(tmp_path_factory.mktemp("project"), config=lines)
    capabilities = ModelCapabilities(context_window=100_000, max_output_tokens=5000)
    with run_worker(directory, default_model=model, capabilities=capabilities) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_is_held(bursts: Bursts) -> None:
    bursts.hold = "nothing"
    bursts.exchanges.clear()


def test_a_burst_arrives_whole_and_as_several_chunks(worker: RunningWorker) -> None:
    chunks = asyncio.run(streamed(worker, "hello"))
    assert answer_in(chunks) == answer_of(PIECES)
    assert len(chunks) > 3


def test_a_provider_without_websockets_is_asked_for_one_once(worker: RunningWorker, bursts: Bursts) -> None:
    bursts.upgrades = 0
    for _ in range(3):
        asyncio.run(streamed(worker, "hello"))
    assert len(bursts.exchanges) == 3
    assert bursts.upgrades <= 1


def test_a_reader_that_goes_away_before_the_first_word_ends_the_request(
    worker: RunningWorker, bursts: Bursts
) -> None:
    bursts.hold = "head"

    async def run() -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            body = {"model": "demo", "messages": [{"role": "user", "content": "hello"}], "stream": True}
            call = asyncio.create_task(client.post(f"{worker.origin}/v1/chat/completions", json=body))
            await asyncio.to_thread(bursts.wait_for, lambda seen: len(seen) == 1)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    asyncio.run(run())
    bursts.wait_for(closed)


def test_a_reader_that_goes_away_in_the_middle_ends_the_request(
    worker: RunningWorker, bursts: Bursts
) -> None:
    bursts.hold = "middle"

    async def run() -> None:
        async with streaming(worker, "hello") as chunks:
            async for chunk in chunks:
                if answer_in([chunk]):
                    break

    asyncio.run(run())
    bursts.wait_for(closed)


def closed(exchanges: list[Exchange]) -> bool:
    return len(exchanges) == 1 and exchanges[0].closed is not None


STREAMS, STALLED, LEAVERS = 100, 10, 20
SLACK = 8
"""What a background probe, warming up and a closing connection may hold; a leak of so many streams is more."""


def test_many_streams_with_readers_that_stall_and_readers_that_leave(tmp_path: Path) -> None:
    told = " ".join(f"word{number}" for number in range(150))
    with run_llm_stub() as stub:
        directory = project(tmp_path, agents=agent([]), config=config(stub))
        capabilities = ModelCapabilities(context_window=100_000, max_output_tokens=500)
        limits = {"max_concurrency": STREAMS, "capabilities": capabilities}
        with run_worker(directory, **spec() | limits) as worker:
            asyncio.run(streamed(worker, told))
            before = settle(worker)
            answers = asyncio.run(crowd(worker, told))
            assert answers == [f"echo: {told}"] * (STREAMS - STALLED - LEAVERS)
            check_nothing_is_left(worker, before, SLACK)


async def crowd(worker: RunningWorker, told: str) -> list[str]:
    """The answers of those who read to the end, while some do not read and some go away."""
    over = asyncio.Event()

    async def stall() -> None:
        async with streaming(worker, told):
            await over.wait()

    async def leave() -> None:
        async with streaming(worker, told) as chunks:
            async for chunk in chunks:
                if answer_in([chunk]):
                    return

    async def read() -> str:
        return answer_in(await streamed(worker, told))

    others = [asyncio.create_task(act()) for act in [stall] * STALLED + [leave] * LEAVERS]
    answers = await asyncio.gather(*(read() for _ in range(STREAMS - STALLED - LEAVERS)))
    over.set()
    await asyncio.gather(*others)
    return answers


def test_a_reader_that_goes_away_during_a_tool_call_ends_the_call(tmp_path: Path) -> None:
    def held(request: Recorded) -> Fault | None:
        return Fault(hold=True) if request.rpc_method == "tools/call" else None

    with run_llm_stub() as stub, run_downstream(fault=held) as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        with run_worker(project(tmp_path, servers=servers, config=config(stub)), **spec()) as worker:

            async def run() -> None:
                async with streaming(worker, 'CALL tools__echo {"text": "x"}') as chunks:
                    async for chunk in chunks:
                        if (chunk.get("pallas") or {}).get("type") == "tool_call":
                            await asyncio.to_thread(tools.wait_for, lambda seen: any(map(held, seen)))
                            return

            asyncio.run(run())
            tools.wait_for_gone(lambda gone: any(map(held, gone)))
            assert len(stub.asked) == 1
