"""Answers of a provider that no client of its API can read: the provider's failure, never the worker's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.loopback import Fault
from support.gateway.turns.hostile import BODIES
from support.worker.conversation.chat import post
from support.worker.conversation.llm import config
from support.worker.process import RunningWorker, run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakes.llm_stub import LlmStub

AGENT = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="demo", instruction="You answer.")
async def demo(): ...
"""


@pytest.fixture(scope="module")
def worker(stub: LlmStub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    directory = project(tmp_path_factory.mktemp("project"), agents=AGENT, servers={}, config=config(stub))
    with run_worker(directory, default_model="openai.stub-model") as running:
        yield running


@pytest.mark.parametrize("body", BODIES)
def test_no_answer_of_a_provider_is_a_failure_of_the_worker(
    body: str, stub: LlmStub, worker: RunningWorker
) -> None:
    headers = {"Content-Type": "text/event-stream"}
    stub.loopback.fault = lambda asked: Fault(status=200, headers=headers, body=body) if asked.body else None
    answered = post(worker, "x")
    assert answered.status_code in (200, 502), answered.text
    stub.loopback.fault = None
    again = post(worker, "x")
    assert again.json()["choices"][0]["message"]["content"] == "echo: x"
