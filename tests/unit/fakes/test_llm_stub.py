"""The LLM stub, through the providers' own clients: what the other tests build upon."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from fakes.llm_stub import Call, LlmStub, Turn, Usage, run_llm_stub

TOOL = {"name": "add", "description": "adds", "parameters": {"type": "object", "properties": {}}}


def openai_client(stub: LlmStub) -> Any:
    """OpenAI's client; any type, as plain dictionaries are passed to it."""
    return openai.OpenAI(api_key="k", base_url=stub.openai_url, max_retries=0)


def anthropic_client(stub: LlmStub) -> Any:
    """Anthropic's client; any type, as plain dictionaries are passed to it."""
    return anthropic.Anthropic(api_key="k", base_url=stub.anthropic_url, max_retries=0)


def test_openai_whole_and_streamed() -> None:
    usage = Usage(input=50, output=9, cached=30, reasoning=4)
    with run_llm_stub(answer=lambda _: Turn(text="two words", usage=usage)) as stub:
        client = openai_client(stub)
        messages = [{"role": "user", "content": "hi"}]
        whole = client.chat.completions.create(model="m", messages=messages)
        assert whole.choices[0].message.content == "two words"
        assert whole.usage.prompt_tokens_details.cached_tokens == 30
        assert whole.usage.completion_tokens_details.reasoning_tokens == 4
        chunks = [
            *client.chat.completions.create(
                model="m", messages=messages, stream=True, stream_options={"include_usage": True}
            )
        ]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == "two words"
        assert chunks[-1].usage.total_tokens == 59
        assert [asked.bearer for asked in stub.asked] == ["k", "k"]


@pytest.mark.parametrize("stream", [False, True])
def test_openai_calls_a_tool_and_is_told_the_result(stream: bool) -> None:
    with run_llm_stub() as stub:
        client = openai_client(stub)
        messages = [{"role": "user", "content": 'please\nCALL add {"a": 1, "b": 2}'}]
        tools = [{"type": "function", "function": TOOL}]
        if stream:
            with client.chat.completions.stream(model="m", messages=messages, tools=tools) as events:
                completion = events.get_final_completion()
        else:
            completion = client.chat.completions.create(model="m", messages=messages, tools=tools)
        (call,) = completion.choices[0].message.tool_calls
        assert completion.choices[0].finish_reason == "tool_calls"
        assert (call.function.name, json.loads(call.function.arguments)) == ("add", {"a": 1, "b": 2})
        asking = {"role": "assistant", "tool_calls": [call.model_dump(include={"id", "type", "function"})]}
        told = {"role": "tool", "tool_call_id": call.id, "content": "3"}
        answer = client.chat.completions.create(model="m", messages=[*messages, asking, told])
        assert answer.choices[0].message.content == "tools said: 3"
        assert stub.asked[0].tools == ("add",)


@pytest.mark.parametrize("stream", [False, True])
def test_responses_call_a_tool_and_are_told_the_result(stream: bool) -> None:
    usage = Usage(input=50, output=9, cached=30, reasoning=4)
    with run_llm_stub() as stub:
        client = openai_client(stub)
        asking = [{"role": "user", "content": 'please\nCALL add {"a": 1, "b": 2}'}]
        tools = [{"type": "function", "strict": False, **TOOL}]
        if stream:
            with client.responses.stream(model="m", input=asking, tools=tools) as events:
                response = events.get_final_response()
        else:
            response = client.responses.create(model="m", input=asking, tools=tools)
        (call,) = response.output
        assert (call.name, json.loads(call.arguments)) == ("add", {"a": 1, "b": 2})
        told = {"type": "function_call_output", "call_id": call.call_id, "output": "3"}
        stub.answer = lambda asked: Turn(text=f"told {asked.tool_results[0]}", usage=usage)
        answer = client.responses.create(model="m", input=[*asking, call.model_dump(), told])
        assert answer.output_text == "told 3"
        assert answer.usage.input_tokens_details.cached_tokens == 30
        assert (stub.asked[0].tools, stub.asked[0].bearer) == (("add",), "k")


@pytest.mark.parametrize("stream", [False, True])
def test_anthropic_calls_a_tool_and_is_told_the_result(stream: bool) -> None:
    with run_llm_stub() as stub:
        client = anthropic_client(stub)
        messages: list[dict[str, Any]] = [{"role": "user", "content": 'CALL add {"a": 1}'}]
        tools = [{"name": "add", "input_schema": TOOL["parameters"]}]
        arguments = {"model": "m", "max_tokens": 9, "messages": messages, "tools": tools}
        if stream:
            with client.messages.stream(**arguments) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**arguments)
        (block,) = message.content
        assert (message.stop_reason, block.name, block.input) == ("tool_use", "add", {"a": 1})
        assert (message.usage.input_tokens, message.usage.output_tokens) == (100, 20)
        result = {"type": "tool_result", "tool_use_id": block.id, "content": "3"}
        messages += [
            {"role": "assistant", "content": [block.model_dump(include={"type", "id", "name", "input"})]},
            {"role": "user", "content": [result]},
        ]
        assert client.messages.create(**arguments).content[0].text == "tools said: 3"
        assert stub.asked[0].bearer == "k"


def test_scripted_turns_come_first_and_errors_are_the_providers_own() -> None:
    with run_llm_stub() as stub:
        stub.script(Turn(status=429, text="slow down"), Turn(calls=(Call("a"), Call("b", {"x": 1}))))
        client = openai_client(stub)
        messages = [{"role": "user", "content": "hi"}]
        with pytest.raises(openai.RateLimitError, match="slow down"):
            client.chat.completions.create(model="m", messages=messages)
        both = client.chat.completions.create(model="m", messages=messages)
        assert [call.function.name for call in both.choices[0].message.tool_calls] == ["a", "b"]
        assert (
            client.chat.completions.create(model="m", messages=messages).choices[0].message.content
            == "echo: hi"
        )
        stub.script(Turn(status=529, text="overloaded"))
        claude = anthropic_client(stub)
        with pytest.raises(anthropic.APIStatusError, match="overloaded"):
            claude.messages.create(model="m", max_tokens=9, messages=messages)


def test_models_are_listed_as_both_providers_do() -> None:
    with run_llm_stub(models=["one", "org/two:8b"]) as stub:
        client = openai_client(stub)
        assert [model.id for model in client.models.list()] == ["one", "org/two:8b"]
        claude = anthropic_client(stub)
        assert claude.models.retrieve("org/two:8b").id == "org/two:8b"
        with pytest.raises(anthropic.NotFoundError):
            claude.models.retrieve("three")


def test_a_stream_can_be_cut_short() -> None:
    with run_llm_stub(answer=lambda _: Turn(text="a b c d", cut=True)) as stub:
        client = openai_client(stub)
        chunks = [*client.chat.completions.create(model="m", messages=[], stream=True)]
        assert all(chunk.choices[0].finish_reason is None for chunk in chunks)
        assert 0 < len(chunks) < 5
