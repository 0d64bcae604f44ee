"""LLM providers that refuse, filter, say nothing, or die: what each surface says of it, and who asks again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.llm_stub import Call, LlmStub, Turn, by_request, run_llm_stub
from support.worker.conversation.chat import answer_in, error_in, events, post, stream
from support.worker.conversation.llm import config, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

ONCE = {"x-should-retry": "false"}
"""The provider's client sends a request again by itself."""
TOO_LONG = Turn(
    status=400, code="context_length_exceeded", text="maximum context length is 8192 tokens", headers=ONCE
)
SETTINGS = "llm_retries: 1\n"
AGENT = """
from fast_agent import FastAgent
from fast_agent.types import RequestParams

fast = FastAgent("tests")


@fast.agent(name="demo", instruction="You are a test.", request_params=RequestParams(max_iterations=1))
async def demo(): ...
"""


@pytest.fixture(scope="module")
def worker(stub: LlmStub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    """One whose models are asked once more by fast-agent, if at all."""
    settings = config(stub).replace("llm_retries: 0\n", SETTINGS)
    folder = project(tmp_path_factory.mktemp("project"), config=settings, agents=AGENT)
    with run_worker(folder, **spec()) as running:
        yield running


@pytest.fixture(autouse=True)
def asked(stub: LlmStub) -> Iterator[list[object]]:
    """What the provider was asked in this test."""
    stub.asked.clear()
    yield stub.asked  # type: ignore[misc]
    stub.script()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("said", "status", "code", "headers"),
    [
        (TOO_LONG, 400, "context_length_exceeded", {}),
        (
            Turn(status=401, text="Incorrect API key provided", headers=ONCE),
            502,
            "provider_key_refused",
            ONCE,
        ),
        (Turn(status=403, text="no access", headers=ONCE), 502, "provider_forbids", ONCE),
        (Turn(status=400, text="moderation", code="content_filter", headers=ONCE), 400, "content_filter", {}),
        (Turn(status=429, code="insufficient_quota", headers=ONCE), 502, "insufficient_quota", ONCE),
        (Turn(status=400, text="no such luck"), 502, "model_refused", ONCE),
    ],
    ids=lambda value: value.code if isinstance(value, Turn) else None,
)
def test_what_is_refused_is_told_once_and_in_words(
    worker: RunningWorker,
    stub: LlmStub,
    asked: list[object],
    streamed: bool,
    said: Turn,
    status: int,
    code: str,
    headers: Mapping[str, str],
) -> None:
    stub.script(said)
    response = post(worker, "x", stream=streamed)
    assert (response.status_code, error_in(response)["code"]) == (status, code)
    assert {name: response.headers.get(name) for name in headers} == dict(headers)
    message = error_in(response)["message"]
    assert f"(request_id {response.headers['x-request-id']})" in message
    assert "{" not in message
    if said.text:
        assert said.text not in response.text
        worker.wait_until(lambda it: any(said.text in line for line in it.messages("WARNING")))
    assert len(asked) == 1


def test_the_providers_own_words_are_for_who_may_see_them(worker: RunningWorker, stub: LlmStub) -> None:
    stub.script(TOO_LONG)
    response = post(worker, "x", headers={"Pallas-Accept": "detail"})
    assert TOO_LONG.text in response.json()["pallas"]["detail"]
    stub.script(TOO_LONG)
    result = call(worker.url, "auto", "demo", message="x")
    assert result.is_error
    assert "the conversation is longer than the model can take; shorten it" in text(result)
    assert "(request_id " in text(result)
    assert TOO_LONG.text not in text(result)


def test_a_filtered_answer_is_what_was_said(worker: RunningWorker, stub: LlmStub) -> None:
    filtered = Turn(text="Once upon a", finish="content_filter")
    stub.script(filtered)
    [choice] = post(worker, "x").json()["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("content_filter", "Once upon a")
    stub.script(filtered)
    chunks = stream(worker, "x")
    assert answer_in(chunks) == "Once upon a"
    assert chunks[-1]["choices"][0]["finish_reason"] == "content_filter"


def test_a_reader_that_cannot_take_text_back_never_reads_the_beginning_twice(
    worker: RunningWorker, stub: LlmStub, asked: list[object]
) -> None:
    stub.script(Turn(text="one two three four", dies=True), Turn(text="never"))
    response = post(worker, "x", stream=True)
    *chunks, last = events(response.text.splitlines())
    assert (
        answer_in(chunk for chunk in chunks if chunk.get("pallas", {}).get("type") != "retry") == "one two "
    )
    assert (last["error"]["code"], last["pallas"]["status"]) == ("model_failed", 502)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("said", "reason", "finish"),
    [
        (Turn(text=""), "empty", "stop"),
        (Turn(calls=(Call("nowhere", {}),)), "max_iterations", "length"),
    ],
    ids=["empty", "rounds"],
)
def test_a_turn_without_an_answer_is_no_success(
    worker: RunningWorker, stub: LlmStub, said: Turn, reason: str, finish: str
) -> None:
    stub.script(*[said] * 3)
    [choice] = (answer := post(worker, "x").json())["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == (finish, "")
    assert (answer["pallas"]["status"], answer["pallas"]["reason"]) == ("incomplete", reason)
    rows = answer["pallas"]["messages"]
    stub.script()
    assert post(worker, *rows, "and now").status_code == 200, "what is kept can be sent again"


def test_a_model_that_says_nothing_is_an_error_of_the_tool(worker: RunningWorker, stub: LlmStub) -> None:
    stub.script(*[Turn(text="")] * 3)
    result = call(worker.url, "auto", "demo", message="x")
    assert result.is_error
    assert text(result) == "[the model ended its turn without a word; ask again]"
    assert (result.meta or {})["pallas/reason"] == "empty"


def test_a_conversation_that_is_too_long_goes_on_without_its_older_turns(tmp_path: Path) -> None:
    with run_llm_stub(answer=lambda asked: TOO_LONG if asked.messages > 4 else by_request(asked)) as stub:
        with run_worker(
            project(tmp_path, config=config(stub)), context_overflow="shorten", **spec()
        ) as worker:
            rows = [
                {"role": role, "content": f"{role} {number}"}
                for number in range(4)
                for role in ("user", "assistant")
            ]
            answer = post(worker, *rows, "now").json()
        assert answer["choices"][0]["message"]["content"] == "echo: now"
        assert answer["pallas"]["turns_left_out"] == 3
        assert answer["pallas"]["messages"][-1]["pallas"] == {"turns_left_out": 3}
        said = [message["content"] for message in stub.asked[-1].body["messages"]]
        assert said[1:] == ["user 3", "assistant 3", "now"]
