"""Chat completions of a real worker: whole and streamed, with tools, images, usage, rows, and what else a call has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from fakes.downstream import RunningDownstream, run_downstream
from fakes.llm_stub import Call, LlmStub, Turn, Usage
from support.data.image_data import PNG
from support.worker.conversation.chat import answer_in, events, post, stream, told
from support.worker.conversation.llm import config, metric, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "start-key-0123456789-0123456789-0123456789"
ADD = 'CALL tools__add {"a": 2, "b": 3}'
CHILD = 'CALL agent__child {"message": "hello child"}'
AGENTS = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="child", instruction="You are the child.")
async def child(): ...


@fast.agent(name="demo", instruction="You are the parent.", servers=["tools"], agents=["child"])
async def demo(): ...
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RunningDownstream]:
    with run_downstream() as running:
        yield running


@pytest.fixture(scope="module")
def worker(
    tmp_path_factory: pytest.TempPathFactory, stub: LlmStub, server: RunningDownstream
) -> Iterator[RunningWorker]:
    folder = project(
        tmp_path_factory.mktemp("project"),
        agents=AGENTS,
        config=config(stub),
        servers={"tools": {"transport": "http", "url": server.url, "forward_inbound_auth": True}},
    )
    with run_worker(folder, key=KEY, **spec()) as running:
        yield running


def test_the_agent_is_the_one_model(worker: RunningWorker) -> None:
    [model] = httpx.get(f"{worker.origin}/v1/models").json()["data"]
    assert (model["id"], model["object"], model["name"]) == ("demo", "model", "Demo")
    assert httpx.get(f"{worker.origin}/v1/models/demo").json() == model
    assert "/v1/chat/completions" in httpx.get(worker.origin).text


def test_a_whole_answer(worker: RunningWorker, stub: LlmStub) -> None:
    stub.script(Turn(text="Good day.", usage=Usage(input=100, output=20, cached=30, reasoning=5)))
    response = post(worker, "hello", headers={"X-Request-Id": "request-1"})
    assert response.headers["x-request-id"] == "request-1"
    answer = response.json()
    assert (answer["object"], answer["model"]) == ("chat.completion", "demo")
    [choice] = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Good day."}
    assert choice["finish_reason"] == "stop"
    assert answer["usage"] == {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    turn = answer["pallas"]
    assert turn["messages"] == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "Good day."},
    ]
    assert turn["usage"] == [
        {"model": "stub-model", "turns": 1, "input": 100, "output": 20, "cache_hit": 30, "reasoning": 5}
    ]


def test_a_stream_tells_the_same_as_a_whole_answer(worker: RunningWorker) -> None:
    message = f"{ADD}\n{CHILD}"
    whole = post(worker, message).json()
    chunks = stream(worker, message, stream_options={"include_usage": True})
    assert answer_in(chunks) == whole["choices"][0]["message"]["content"]
    *_, turn, usage = chunks
    assert usage["usage"] == whole["usage"]
    assert usage["choices"] == []
    assert turn["choices"][0]["finish_reason"] == "stop"
    assert turn["pallas"]["usage"] == whole["pallas"]["usage"]
    shapes = [[message["role"] for message in one["messages"]] for one in (turn["pallas"], whole["pallas"])]
    assert shapes[0] == shapes[1] == ["user", "assistant", "tool", "tool", "assistant"]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all(chunk["choices"] for chunk in chunks[:-1]), "clients look at the first choice of each"
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_tool_calls_are_told_as_they_happen_with_those_of_children(worker: RunningWorker) -> None:
    chunks = stream(worker, f"{ADD}\n{CHILD}")
    calls, results = told(chunks, "tool_call"), told(chunks, "tool_result")
    assert {(one["server"], one["tool"]): one["arguments"] for one in calls} == {
        ("tools", "tools__add"): {"a": 2, "b": 3},
        (None, "agent__child"): {"message": "hello child"},
    }
    assert {one["id"]: one["ok"] for one in results} == {one["id"]: True for one in calls}
    spoken = told(chunks, "text")
    assert "".join(one["text"] for one in spoken if one["agent"].startswith("child")) == "echo: hello child"


def test_rows_of_a_turn_are_the_history_of_the_next(worker: RunningWorker, stub: LlmStub) -> None:
    rows = post(worker, ADD).json()["pallas"]["messages"]
    assert post(worker, *rows, "and now").status_code == 200
    said = stub.asked[-1].body["messages"]
    assert [message["role"] for message in said] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert said[2]["tool_calls"][0]["id"] == said[3]["tool_call_id"]


def test_a_conversation_may_end_with_results(worker: RunningWorker) -> None:
    rows = post(worker, ADD).json()["pallas"]["messages"]
    assert post(worker, *rows[:-1]).json()["choices"][0]["message"]["content"].startswith("tools said: ")


def test_images_come_as_data_urls(worker: RunningWorker, stub: LlmStub) -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    row = {"role": "user", "content": [{"type": "text", "text": "what is it?"}, image]}
    assert post(worker, row).json()["choices"][0]["message"]["content"] == "echo: what is it?"
    assert stub.asked[-1].images == 1


def test_the_bearer_goes_where_that_of_send_message_goes(
    worker: RunningWorker, server: RunningDownstream
) -> None:
    server.forget()
    post(worker, ADD, headers={"Authorization": "Bearer callers-own-token"})
    assert {request.bearer for request in server.requests if request.rpc_method == "tools/call"} == {
        "callers-own-token"
    }


def test_both_surfaces_are_counted_and_logged_alike(worker: RunningWorker) -> None:
    series = 'pallas_send_message_total{agent="demo",outcome="ok"}'
    before = metric(worker, series)
    assert text(call(worker.url, "auto", "demo", message="x")) == "echo: x"
    post(worker, "x", user="talk-1")
    post(worker, "x", metadata={"conversation_id": "talk-2"}, user="somebody")
    assert metric(worker, series) == before + 3
    worker.wait_until(lambda it: {"talk-1", "talk-2"} <= {record["conversation_id"] for record in it.records})


def test_what_nobody_reads_is_named(worker: RunningWorker) -> None:
    row = {"role": "user", "content": "hello", "name": "somebody"}
    response = post(worker, row, metadata={"topic": "x"}, store=True)
    assert response.headers["pallas-ignored"] == "messages.name, metadata, store"
    assert response.json()["pallas"]["ignored"] == ["messages.name", "metadata", "store"]
    streamed = post(worker, row, stream=True)
    assert streamed.headers["pallas-ignored"] == "messages.name"
    assert events(streamed.text.splitlines())[-2]["pallas"]["ignored"] == ["messages.name"]


def test_a_turn_is_held_with_the_key_and_gone_on_with(worker: RunningWorker) -> None:
    key = {"Pallas-Key": KEY}
    held = post(worker, ADD, headers=key, hold=["tools__*"]).json()
    [choice] = held["choices"]
    assert choice["finish_reason"] == "tool_calls"
    [wanted] = choice["message"]["tool_calls"]
    assert wanted["function"]["name"] == "tools__add"
    chunks = stream(worker, ADD, headers=key, hold=["tools__*"])
    [last] = chunks[-1]["choices"]
    assert (last["finish_reason"], last["delta"]["tool_calls"][0]["index"]) == ("tool_calls", 0)
    assert told(chunks, "tool_call") == []
    resumed = post(worker, *held["pallas"]["messages"], headers=key, resume=True).json()
    assert resumed["choices"][0]["message"]["content"].startswith("tools said: ")


def test_a_failure_in_the_middle_is_the_last_event(worker: RunningWorker, stub: LlmStub) -> None:
    first = Turn(text="Let me see.", calls=(Call("tools__add", {"a": 1, "b": 1}),))
    stub.script(first, *[Turn(status=500, text="no such luck")] * 10)
    try:
        response = post(worker, "x", stream=True)
    finally:
        stub.script()
    assert response.status_code == 200
    *chunks, last = events(response.text.splitlines())
    assert answer_in(chunks) == "Let me see."
    assert list(last) == ["error", "pallas"]
    assert last["error"]["code"] == "model_failed"
