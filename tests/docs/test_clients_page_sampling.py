"""The sampling parameters of `docs/clients.md`: what each provider's client does with each of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fakes.llm_stub import run_llm_stub
from support.data.clients_page import table
from support.worker.conversation.llm import KEY, spec
from support.worker.process import run_worker
from support.worker.project import call, project

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
import json

from fast_agent import FastAgent
from fast_agent.agents import McpAgent
from fast_agent.types import RequestParams

fast = FastAgent("tests")


def nothing() -> None:
    pass


class Sampling(McpAgent):
    async def generate(self, messages, request_params=None, tools=None):
        given = RequestParams(**json.loads(messages[-1].all_text()))
        return await super().generate(messages, given, tools)


@fast.custom(Sampling, name="demo", function_tools=[nothing])
async def demo(): ...
"""
VALUES: dict[str, Any] = {
    "temperature": 0.25,
    "top_p": 0.5,
    "top_k": 7,
    "min_p": 0.125,
    "presence_penalty": 0.75,
    "frequency_penalty": 0.375,
    "stop_sequences": ["HALT"],
    "parallel_tool_calls": False,
}
PROVIDERS = ("openai", "responses", "generic", "anthropic")


def found(body: Any, value: Any) -> set[str]:
    """The names under which a request's body has this value, but for one that has it in every request."""
    if not isinstance(body, dict):
        return set()
    here = {name for name, item in body.items() if item == value and type(item) is type(value)} - {"store"}
    return here.union(*(found(item, value) for item in body.values()))


def test_the_table_has_each_parameter() -> None:
    assert [row[0] for row in table("sampling parameter")] == list(VALUES)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_does_what_the_table_says(tmp_path: Path, provider: str) -> None:
    column = 1 + PROVIDERS.index(provider)
    with run_llm_stub() as stub:
        url = stub.anthropic_url if provider == "anthropic" else stub.openai_url
        model = f"{provider}.stub-model"
        keys = f"{provider}: {{api_key: {KEY}, base_url: '{url}'}}"
        directory = project(
            tmp_path, agents=SOURCE, config=f"default_model: {model}\nllm_retries: 0\n{keys}\n"
        )
        with run_worker(directory, **spec() | {"default_model": model}) as worker:
            for row in table("sampling parameter"):
                name, expected = row[0], row[column]
                before = len(stub.asked)
                result = call(worker.url, "auto", "demo", message=json.dumps({name: VALUES[name]}))
                assert result.is_error == (expected == "fails"), (name, result.content)
                sent = [found(asked.body, VALUES[name]) for asked in stub.asked[before:]]
                known: dict[str, list[set[str]]] = {"fails": [], "–": [set()]}
                assert sent == known.get(expected, [{expected}]), name
