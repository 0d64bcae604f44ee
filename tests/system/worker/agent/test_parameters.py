"""Every parameter of a chat completion with every kind of provider: what arrives is what the table of fates says."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fakes.llm_stub import run_llm_stub
from pallas_worker.agent.parameters.fates import FAMILIES, NAMES, Family
from support.worker.llm import KEY
from support.worker.process import run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from fakes.llm_stub import Asked, LlmStub

AGENTS = """
from fast_agent import FastAgent

fast = FastAgent("tests")


def look(where: str = "") -> str:
    '''Look somewhere.'''
    return "a thing"


def ask(what: str = "") -> str:
    '''Ask something.'''
    return "an answer"


@fast.agent(name="demo", instruction="You look. It is {{currentDate}}.", function_tools=[look, ask], skills=[])
async def demo(): ...
"""

MODELS = {
    "chat": "openai.gpt-4.1",
    "chat-reasoning": "openai.o3",
    "compatible": "generic.some-model",
    "responses": "responses.gpt-4.1",
    "responses-reasoning": "responses.gpt-5",
    "anthropic": "claude-haiku-4-5?reasoning=off",
    "anthropic-thinking": "claude-opus-4-7",
    "fast-agent": "passthrough",
}
"""Of each family that stand-ins speak for."""

VALUES: Mapping[str, Any] = {
    "temperature": 0.25,
    "top_p": 0.75,
    "top_k": 7,
    "min_p": 0.125,
    "repetition_penalty": 1.5,
    "presence_penalty": -0.5,
    "frequency_penalty": 0.5,
    "logit_bias": {"50": -3},
    "seed": 42,
    "stop": ["<end>"],
    "max_tokens": 77,
    "reasoning_effort": "low",
    "service_tier": "flex",
    "tool_choice": "required",
    "named tool_choice": {"type": "function", "function": {"name": "look"}},
    "parallel_tool_calls": False,
    "extra": {"metadata": {"user_id": "u1"}},
}


class Rig:
    """A worker and the stand-in of all its providers."""

    def __init__(self, origin: str, stub: LlmStub) -> None:
        self.origin = origin
        self.stub = stub

    def ask(self, model: str | None = None, headers: Mapping[str, str] = {}, **fields: Any) -> httpx.Response:
        """The answer to one chat completion; a model stands for the agent's own."""
        body = {"model": "demo", "messages": [{"role": "user", "content": "hello"}], **fields}
        if model is not None:
            body["model_override"] = model
        return httpx.post(f"{self.origin}/v1/chat/completions", json=body, headers=dict(headers), timeout=60)

    def sent(self, model: str | None = None, **fields: Any) -> tuple[httpx.Response, list[Asked]]:
        """The answer, and what the provider was asked meanwhile."""
        before = len(self.stub.asked)
        return self.ask(model, **fields), self.stub.asked[before:]


@contextmanager
def rig(
    directory: Path, *, agents: str = AGENTS, model: str = "openai.gpt-4.1", overrides: bool = True
) -> Iterator[Rig]:
    """A worker of `agents` whose default model is `model`."""
    with run_llm_stub() as stub:
        openai, anthropic = stub.openai_url, stub.anthropic_url
        config = f"default_model: {model}\nllm_retries: 0\n" + "".join(
            f"{section}: {{api_key: {KEY}, base_url: '{url}'}}\n"
            for section, url in {
                "openai": openai,
                "responses": openai,
                "generic": openai,
                "anthropic": anthropic,
            }.items()
        )
        folder = project(directory, agents=agents, config=config)
        changes: dict[str, Any] = {"models": tuple(MODELS.values()), "overrides": overrides, "key": "the-key"}
        with run_worker(folder, **changes) as worker:
            yield Rig(worker.origin, stub)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """For tests that leave nothing behind."""
    with rig(tmp_path_factory.mktemp("parameters")) as running:
        yield running


def at(body: Mapping[str, Any], path: str) -> Any:
    """What stands at a dotted path of a request's body, or None."""
    found: Any = body
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def named(answer: httpx.Response) -> list[str]:
    """What the answer says was not taken."""
    header = answer.headers.get("pallas-ignored", "")
    return [part.strip() for part in header.split(",") if part.strip()]


def seen(
    family: Family, name: str, answer: httpx.Response, asked: list[Asked], without: Mapping[str, Any]
) -> str:
    """What has become of one parameter, by the answer and by what has reached the provider."""
    field = name.removeprefix("named ")
    if answer.status_code == 400:
        assert answer.json()["error"]["param"] == field, answer.text
        assert not asked
        return "refused"
    assert answer.status_code == 200, answer.text
    if field in named(answer):
        assert asked[0].body.keys() == without.keys(), "named, and sent all the same"
        return "ignored"
    if family.fate("extra").how == "taken":
        return "taken"
    wires = family.fate(name).wire.split(" or ") if name != "extra" else ["metadata"]
    values = [(at(asked[0].body, wire), at(without, wire)) for wire in wires]
    return "arrives" if any(now is not None and now != before for now, before in values) else "silence"


@pytest.mark.parametrize("key", MODELS)
def test_what_becomes_of_each_parameter_is_what_the_table_says(shared: Rig, key: str) -> None:
    family, model = FAMILIES[key], MODELS[key]
    before: dict[str, Any] = {}
    if key != "fast-agent":
        before = dict(shared.sent(model)[1][0].body)
    said, found = {}, {}
    for name in NAMES:
        how = family.fate(name).how
        said[name] = how if how in ("taken", "ignored", "refused") else "arrives"
        answer, asked = shared.sent(model, **{name.removeprefix("named "): VALUES[name]})
        found[name] = seen(family, name, answer, asked, before)
    assert found == said


def test_the_table_has_every_family_that_a_stand_in_speaks_for() -> None:
    assert {key for key, family in FAMILIES.items() if family.tried} == set(MODELS)
