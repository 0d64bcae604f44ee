"""Answers that fit a schema: what providers are told, what is asked again, what callers get."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import TextContent

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, Call, LlmStub, Turn, by_request, run_llm_stub
from support.worker.conversation.llm import metric, spec
from support.worker.process import run_worker
from support.worker.project import MODES, ask, call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp.client import Client
    from mcp_types import CallToolResult

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "degrees": {"$ref": "#/$defs/Degrees", "description": "as measured"},
    },
    "required": ["city", "degrees"],
    "$defs": {"Degrees": {"type": "integer", "maximum": 60}},
}
GOOD = '{"city": "Oslo", "degrees": 7}'
TOO_HOT = '{"city": "Oslo", "degrees": 700}'
PROVIDERS = {
    "openai": "openai.stub-model",
    "responses": "responses.stub-model",
    "generic": "generic.stub-model",
    "anthropic": "anthropic.claude-sonnet-4-5",
}
TURNS = 'pallas_llm_turns_total{agent="demo",model="stub-model"}'
AGENTS = """
from fast_agent import FastAgent
fast = FastAgent("tests")

@fast.agent(name="first", instruction="You begin.")
async def first(): ...

@fast.agent(name="second", instruction="You go on.")
async def second(): ...

@fast.chain(name="chain", sequence=["first", "second"])
async def chain(): ...

@fast.parallel(name="parallel", fan_out=["first"], fan_in="second")
async def parallel(): ...

@fast.router(name="router", agents=["first"])
async def router(): ...
"""


@pytest.fixture(scope="module")
def stub() -> Iterator[LlmStub]:
    with run_llm_stub(models=("stub-model", "claude-sonnet-4-5")) as running:
        yield running


def config(stub: LlmStub, model: str = PROVIDERS["openai"]) -> str:
    return (
        f"default_model: {model}\nllm_retries: 0\n"
        f"openai: {{api_key: sk-stub-0123456789, base_url: '{stub.openai_url}'}}\n"
        f"responses: {{api_key: sk-stub-0123456789, base_url: '{stub.openai_url}'}}\n"
        f"generic: {{api_key: sk-stub-0123456789, base_url: '{stub.openai_url}'}}\n"
        f"anthropic: {{api_key: sk-ant-stub-0123456789, base_url: '{stub.anthropic_url}'}}\n"
    )


def facts(model: str = PROVIDERS["openai"], schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return spec() | {"default_model": model, "output_schema": SCHEMA if schema is None else schema}


def told_natively(body: Any) -> dict[str, Any]:
    """The schema in a request, where its provider has a place for it."""
    if "response_format" in body:
        return dict(body["response_format"]["json_schema"]["schema"])
    if "text" in body:
        return dict(body["text"]["format"]["schema"])
    if "output_config" in body:
        return dict(body["output_config"]["format"]["schema"])
    return dict(body["tools"][0]["input_schema"])


def only_text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def config_of_tools(stub: LlmStub) -> str:
    """Where models of Anthropic's are held to a schema by a tool that they have to call."""
    return config(stub, PROVIDERS["anthropic"]).replace(
        "{api_key: sk-ant", "{structured_output_mode: tool_use, api_key: sk-ant"
    )


@pytest.mark.parametrize(
    ("model", "by_tool"),
    [*((model, False) for model in PROVIDERS.values()), (PROVIDERS["anthropic"], True)],
    ids=[*PROVIDERS, "anthropic by a tool"],
)
def test_a_provider_is_told_the_schema_and_its_model_what_was_wrong(
    tmp_path: Path, stub: LlmStub, model: str, by_tool: bool
) -> None:
    bad, good = (
        Turn(calls=(Call("return_structured_output", json.loads(each)),)) if by_tool else Turn(text=each)
        for each in (TOO_HOT, GOOD)
    )
    stub.script(bad, good)
    before = len(stub.asked)
    project(tmp_path, config=config_of_tools(stub) if by_tool else config(stub, model))
    with run_worker(tmp_path, **facts(model)) as worker:
        result = call(worker.url, "auto", "send_message", message="How warm is it?")
        series = f'pallas_llm_turns_total{{agent="demo",model="{model.partition(".")[2]}"}}'
        assert metric(worker, series) == 2, "each answer was paid for"
        warnings = worker.messages("WARNING")
    assert json.loads(only_text(result)) == json.loads(GOOD) == result.structured_content
    first, second = stub.asked[before:]
    for asked in (first, second):
        schema = told_natively(asked.body)
        assert schema["properties"].keys() == {"city", "degrees"}
        assert schema["additionalProperties"] is False
    assert "- /degrees: is greater than the maximum of 60" in second.user
    assert second.messages > first.messages, "in the same conversation"
    assert any("/degrees: is greater than the maximum" in warning for warning in warnings)


@pytest.mark.parametrize("mode", MODES)
def test_both_tools_list_the_schema_and_give_structured_content(
    tmp_path: Path, stub: LlmStub, mode: str
) -> None:
    async def act(client: Client) -> tuple[list[Any], CallToolResult, CallToolResult]:
        listed = (await client.list_tools()).tools  # the SDK's client checks results by these schemas
        stub.script(Turn(text=GOOD), Turn(text=f"```json\n{GOOD}\n```"))
        results = [await client.call_tool(name, {"message": "?"}) for name in ("send_message", "demo")]
        return listed, results[0], results[1]

    project(tmp_path, config=config(stub))
    with run_worker(tmp_path, **facts()) as worker:
        listed, *results = ask(worker.url, mode, act)
    schemas = {tool.name: tool.output_schema for tool in listed}
    assert schemas == {"send_message": SCHEMA, "demo": SCHEMA, "get_health": None}
    for result in results:
        assert result.structured_content == json.loads(GOOD)
        assert only_text(result) == GOOD


def test_an_answer_that_never_fits_is_an_error_that_says_why(tmp_path: Path, stub: LlmStub) -> None:
    before = len(stub.asked)
    stub.script(Turn(text="It is warm."), Turn(text='{"city": "s3cret"}'), Turn(text=TOO_HOT))
    project(tmp_path, config=config(stub))
    with run_worker(tmp_path, **facts()) as worker:
        result = call(worker.url, "auto", "send_message", message="How warm is it?")
        assert metric(worker, TURNS) == 3
        corrections = [asked.user for asked in stub.asked[before + 1 :]]
        assert call(worker.url, "auto", "get_health").is_error is not True
    assert result.is_error
    assert result.structured_content is None
    assert text(result).startswith(
        "the answer does not fit its schema, after 2 corrections:\n- /degrees: is greater than the maximum of 60"
        " (request_id "
    )
    assert "is not JSON: Expecting value at line 1, column 1" in corrections[0]
    assert '- the answer: "degrees" is a required property' in corrections[1]
    assert len(stub.asked) == before + 3


def test_tools_run_before_the_answer(tmp_path: Path, stub: LlmStub) -> None:
    for number, model in enumerate(PROVIDERS.values()):
        with run_downstream() as tools:
            stub.script(
                Turn(calls=(Call("tools__echo", {"text": "warm"}),)), Turn(text="Warm."), Turn(text=GOOD)
            )
            before = len(stub.asked)
            folder = tmp_path / str(number)
            folder.mkdir()
            servers = {"tools": {"transport": "http", "url": tools.url}}
            project(folder, servers=servers, config=config(stub, model))
            with run_worker(folder, **facts(model)) as worker:
                result = call(worker.url, "auto", "send_message", message="How warm is it?")
            asked = stub.asked[before:]
            assert result.structured_content == json.loads(GOOD), (model, result)
            assert asked[0].tools
            assert "warm" in asked[1].tool_results[0]
            assert len(asked) == 3


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, '{"a": 1}'),
        ({"type": "object"}, '{"a": 1}'),
        (
            {"type": "object", "properties": {"below": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
            '{"below": {"below": null}}',
        ),
    ],
)
@pytest.mark.parametrize("model", ["openai", "anthropic"])
def test_what_a_provider_cannot_say_is_told_to_the_model(
    tmp_path: Path, stub: LlmStub, model: str, schema: dict[str, Any], answer: str
) -> None:
    stub.script(Turn(text=answer))
    project(tmp_path, config=config(stub, PROVIDERS[model]))
    with run_worker(tmp_path, **facts(PROVIDERS[model], schema)) as worker:
        result = call(worker.url, "auto", "send_message", message="?")
    assert only_text(result) == answer
    assert result.structured_content == (json.loads(answer) if schema["type"] == "object" else None)
    sent = json.dumps(stub.asked[-1].body)
    assert "JSON" in sent or "json_schema" in sent


@pytest.mark.parametrize("agent", ["chain", "parallel", "router"])
def test_agents_that_are_made_of_others_have_their_answer_written_down(
    tmp_path: Path, stub: LlmStub, agent: str
) -> None:
    def answer(asked: Asked) -> Turn:
        if "Write the answer below as JSON" in asked.user:
            return Turn(text=GOOD)
        if "response_format" in asked.body:  # a router's question, which of its agents it is for
            return Turn(text='{"agent": "first", "confidence": "high", "reasoning": ""}')
        return Turn(text="It has seven degrees in Oslo.")

    stub.answer = answer
    project(tmp_path, agents=AGENTS, config=config(stub))
    with run_worker(tmp_path, agent=agent, **facts()) as worker:
        result = call(worker.url, "auto", "send_message", message="How warm is it?")
    assert result.structured_content == json.loads(GOOD), result
    last = stub.asked[-1]
    stub.answer = by_request
    assert told_natively(last.body)["properties"].keys() == {"city", "degrees"}
    assert "seven degrees in Oslo" in last.user
    assert not last.tools


def test_passthrough_repeats_json_and_fails_otherwise(tmp_path: Path) -> None:
    project(tmp_path)
    with run_worker(tmp_path, output_schema=SCHEMA) as worker:
        assert call(worker.url, "auto", "send_message", message=GOOD).structured_content == json.loads(GOOD)
        assert call(worker.url, "auto", "send_message", message="Good morning").is_error


def test_an_agent_without_a_memory_is_told_what_it_said(tmp_path: Path, stub: LlmStub) -> None:
    forgetful = """
from fast_agent import FastAgent
fast = FastAgent("tests")

@fast.agent(name="demo", instruction="You measure.", use_history=False)
async def demo(): ...
"""
    stub.script(Turn(text=TOO_HOT), Turn(text=GOOD))
    project(tmp_path, agents=forgetful, config=config(stub))
    with run_worker(tmp_path, **facts()) as worker:
        assert call(worker.url, "auto", "send_message", message="How warm?").structured_content
    said = json.dumps(stub.asked[-1].body["messages"])
    assert "How warm?" in said
    assert "700" in said
