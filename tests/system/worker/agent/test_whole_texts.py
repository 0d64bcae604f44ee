"""Characters that nobody can write or keep, in what models and tools say: replaced where they come in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Call, LlmStub, Turn
from support.worker.conversation.chat import answer_in, post, stream, told
from support.worker.conversation.llm import KEY
from support.worker.process import RunningWorker, run_worker
from support.worker.project import MODES, call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENT = '''
from fast_agent import FastAgent

fast = FastAgent("tests")


def half(text: str) -> str:
    """Say half of a pair."""
    return f"a\\ud800b\\x00 {text}"


def blank() -> str:
    """Say nothing."""
    return ""


@fast.agent(name="demo", instruction="You answer.", function_tools=[half, blank], servers=["tools"])
async def demo(): ...
'''
SAID = "half \ud83d of a pair, and \x00 between"
WHOLE = "half \ufffd of a pair, and \ufffd between"
MODELS = ("openai.gpt-4.1", "o3-mini", "sonnet")


@pytest.fixture(scope="module", params=MODELS)
def worker(
    request: pytest.FixtureRequest, stub: LlmStub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningWorker]:
    config = (
        f"default_model: {request.param}\n"
        f"openai: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
        f"responses: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
        f"anthropic: {{api_key: {KEY}, base_url: '{stub.anthropic_url}'}}\n"
    )
    with run_downstream(mute=True) as downstream:
        servers = {"tools": {"transport": "http", "url": downstream.url}}
        directory = project(tmp_path_factory.mktemp("project"), agents=AGENT, servers=servers, config=config)
        with run_worker(directory, default_model=request.param) as running:
            yield running


@pytest.mark.parametrize("mode", MODES)
def test_what_a_model_says_is_an_answer_that_every_client_reads(
    mode: str, stub: LlmStub, worker: RunningWorker
) -> None:
    stub.script(Turn(text=SAID))
    assert text(call(worker.url, mode, "demo", message="x")) == WHOLE


def test_what_a_model_says_is_told_and_kept_in_one_form(stub: LlmStub, worker: RunningWorker) -> None:
    stub.script(Turn(text=SAID, reasoning="I \ud800 think"))
    chunks = stream(worker, "x")
    assert answer_in(chunks) == WHOLE
    assert not told(chunks, "retry")
    (done,) = told(chunks, "turn")
    assert done["messages"][-1]["content"] == WHOLE
    json.dumps(done, ensure_ascii=False).encode()
    stub.script(Turn(text="Yes."))
    assert post(worker, *done["messages"], "again?").status_code == 200
    assert not [said for said in worker.messages("WARNING") if "history[" in said]


@pytest.mark.parametrize(
    ("called", "said"),
    [
        (Call("half", raw='{"text": "c\\ud800d\\u0000"}'), "a\ufffdb\ufffd c\ufffdd\ufffd"),
        (Call("tools__mute", {"failing": True}), "the tool failed and said nothing"),
        (Call("tools__mute", {"failing": False}), "the tool succeeded and said nothing"),
        (Call("blank"), "the tool succeeded and said nothing"),
    ],
    ids=str,
)
def test_what_a_tool_says(called: Call, said: str, stub: LlmStub, worker: RunningWorker) -> None:
    stub.script(Turn(calls=(called,)), Turn(text="I see."))
    chunks = stream(worker, "go")
    assert stub.asked[-1].tool_results == (said,)
    assert [result["text"] for result in told(chunks, "tool_result")] == [said]
    (done,) = told(chunks, "turn")
    assert done["messages"][2]["content"] == said
    stub.script(Turn(text="Yes."))
    assert post(worker, *done["messages"], "again?").status_code == 200
    sent = json.dumps(stub.asked[-1].body, ensure_ascii=False)
    assert said in sent
    assert "\x00" not in sent


@pytest.mark.parametrize("failing", [True, False])
def test_a_result_without_a_word_that_a_client_sends_is_told_so(
    failing: bool, stub: LlmStub, worker: RunningWorker
) -> None:
    function = {"name": "quiet", "arguments": "{}"}
    calls = [{"id": "c1", "type": "function", "function": function}]
    result: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": "", "is_error": failing}
    stub.script(Turn(text="Yes."))
    answered = post(worker, "x", {"role": "assistant", "content": None, "tool_calls": calls}, result)
    assert answered.status_code == 200, answered.text
    assert stub.asked[-1].tool_results == (
        f"the tool {'failed' if failing else 'succeeded'} and said nothing",
    )


@pytest.mark.parametrize("number", ["1e400", "-1e999", "9" * 400, "NaN", "Infinity"])
def test_a_number_that_no_double_holds_is_refused_at_both_surfaces(
    number: str, worker: RunningWorker
) -> None:
    body = f'{{"model": "demo", "messages": [{{"role": "user", "content": "x"}}], "temperature": {number}}}'
    json_headers = {"Content-Type": "application/json"}
    refused = httpx.post(f"{worker.origin}/v1/chat/completions", content=body, headers=json_headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_json")
    rpc = f'{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {{"x": {number}}}}}'
    headers = {**json_headers, "Accept": "application/json, text/event-stream"}
    refused = httpx.post(worker.url, content=rpc, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32700)
