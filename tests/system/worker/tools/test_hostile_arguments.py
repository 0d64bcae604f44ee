"""Whatever a model says in place of a tool's arguments: one error result, one further turn, all of it kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Call, LlmStub, Turn
from support.worker.conversation.chat import post, stream, told
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "sk-stub-0123456789"
MODELS = ("openai.gpt-4.1", "o3-mini", "sonnet")
"""Chat completions, Responses, Anthropic."""
BAD = {
    "no JSON": "{bad",
    "half an object": '{"a": 1, "b": "tex',
    "a list": "[1, 2]",
    "a text": '"a"',
    "a number": "7",
    "NaN": '{"a": NaN, "b": 1}',
    "Infinity": '{"a": -Infinity, "b": 1}',
    "beyond a double": '{"a": 1e400, "b": 1}',
    "whole and beyond": '{"a": ' + "9" * 400 + "}",
    "digits without end": '{"a": ' + "9" * 5000 + "}",
    "deep": '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
    "too large": '{"a": "' + "x" * 1024**2 + '"}',
    "too many values": '{"a": [' + "1," * 20_000 + "1]}",
    "two objects": "{} {}",
}


@pytest.fixture(scope="module")
def workers(stub: LlmStub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunningWorker]]:
    """A worker for each of the models, with a server that has the tool `add`."""
    with run_downstream() as downstream:
        found = {}
        opened = []
        for model in MODELS:
            config = (
                f"default_model: {model}\n"
                f"openai: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
                f"responses: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
                f"anthropic: {{api_key: {KEY}, base_url: '{stub.anthropic_url}'}}\n"
            )
            directory = tmp_path_factory.mktemp("project")
            servers = {"tools": {"transport": "http", "url": downstream.url}}
            context = run_worker(project(directory, servers=servers, config=config), default_model=model)
            found[model] = context.__enter__()
            opened.append(context)
        yield found
        for context in opened:
            context.__exit__(None, None, None)


def history_of(worker: RunningWorker, *messages: str | dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The rows of a turn, and what was told of results."""
    chunks = stream(worker, *messages)
    assert not [chunk for chunk in chunks if "error" in chunk]
    (done,) = told(chunks, "turn")
    return done["messages"], told(chunks, "tool_result")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("what", BAD)
def test_one_error_result_and_one_further_turn(
    model: str, what: str, stub: LlmStub, workers: dict[str, RunningWorker]
) -> None:
    worker = workers[model]
    before = len(stub.asked)
    stub.script(Turn(calls=(Call("tools__add", raw=BAD[what]),)), Turn(text="I see."))
    rows, results = history_of(worker, "add")
    assert len(stub.asked) == before + 2
    (said,) = stub.asked[-1].tool_results
    assert said.startswith("This call did not run, because its arguments cannot be read: ")
    assert len(said) < 1000
    assert [(result["ok"], result["text"]) for result in results] == [(False, said)]
    assert rows[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    # What was kept is taken as it is: nothing of it is left out, and the provider gets JSON of the kind it expects.
    stub.script(Turn(text="Yes."))
    answered = post(worker, *rows, "again?")
    assert answered.status_code == 200, answered.text
    assert stub.asked[-1].messages >= 5
    assert not [said for said in worker.messages("WARNING") if "history[" in said]
    json.loads(json.dumps(stub.asked[-1].body, allow_nan=False))


@pytest.mark.parametrize("model", MODELS)
def test_it_may_try_again(model: str, stub: LlmStub, workers: dict[str, RunningWorker]) -> None:
    stub.script(
        Turn(calls=(Call("tools__add", raw="{bad"),)), Turn(calls=(Call("tools__add", {"a": 2, "b": 3}),))
    )
    assert text(call(workers[model].url, "auto", "demo", message="add")) == 'tools said: {"result":5.0}'
