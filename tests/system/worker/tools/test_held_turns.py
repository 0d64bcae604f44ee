"""A turn that is held before a tool call goes on from its rows in another process as if it had never stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, Call, LlmStub, Turn, by_request, run_llm_stub
from support.worker.conversation.llm import KEY, metric
from support.worker.conversation.turns import Told, turn
from support.worker.process import RunningWorker, run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from fakes.downstream import RunningDownstream

MODELS = {
    "chat": "openai.gpt-4.1",
    "responses": "responses.gpt-5",
    "anthropic": "anthropic.claude-sonnet-4-5",
}
"""Agent → its model: one of each of the APIs."""

AGENTS = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="child", model="openai.gpt-4.1", instruction="You are the child.", servers=["tools"])
async def child(): ...


@fast.chain(name="chain", sequence=["child"])
async def chain(): ...


@fast.agent(
    name="forgetful", model="openai.gpt-4.1", instruction="You are an agent.", servers=["tools"], use_history=False,
)
async def forgetful(): ...
""" + "".join(
    f"""

@fast.agent(name={name!r}, model={model!r}, instruction="You are an agent.", servers=["tools"], agents=["child"])
async def {name}(): ...
"""
    for name, model in MODELS.items()
)

MADE_UP = ("prompt_cache_key",)
"""What fast-agent makes up for each of its instances."""

HISTORY = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello to you."}]
MESSAGE = "Go."


def two_rounds(asked: Asked) -> Turn:
    """Calls two tools, then another one, and then answers."""
    if asked.user != MESSAGE:
        return by_request(asked)
    match asked.tool_results:
        case ():
            calls = (Call("tools__echo", {"text": "a"}), Call("tools__add", {"a": 1, "b": 2}))
            return Turn(text="Let me see.", calls=calls)
        case (_, _):
            return Turn(text="One more.", calls=(Call("tools__fail", {"text": "b"}),))
    return by_request(asked)


@pytest.fixture(scope="module")
def stub() -> Iterator[LlmStub]:
    with run_llm_stub(answer=two_rounds) as running:
        yield running


@pytest.fixture(scope="module")
def tools() -> Iterator[RunningDownstream]:
    with run_downstream() as running:
        yield running


@pytest.fixture(scope="module")
def directory(stub: LlmStub, tools: RunningDownstream, tmp_path_factory: pytest.TempPathFactory) -> Path:
    urls = {"openai": stub.openai_url, "responses": stub.openai_url, "anthropic": stub.anthropic_url}
    config = "llm_retries: 0\nauto_sampling: false\n" + "".join(
        f"{name}: {{api_key: {KEY}, base_url: '{url}'}}\n" for name, url in urls.items()
    )
    servers = {"tools": {"transport": "http", "url": tools.url}}
    return project(tmp_path_factory.mktemp("project"), agents=AGENTS, servers=servers, config=config)


@pytest.fixture(scope="module")
def chat(directory: Path) -> Iterator[RunningWorker]:
    with run_worker(directory, agent="chat", overrides=True) as running:
        yield running


def wire(stub: LlmStub) -> list[Mapping[str, Any]]:
    return [
        {name: value for name, value in asked.body.items() if name not in MADE_UP} for asked in stub.asked
    ]


def begin(stub: LlmStub) -> None:
    """Forget what was asked; the model's calls are named as in the first turn."""
    stub.asked.clear()
    stub.number_from(1)


def returned(*turns: Told) -> list[tuple[Any, ...]]:
    return sorted(result for told in turns for result in told.of("tool_result", "tool", "ok"))


@pytest.mark.parametrize("agent", [*MODELS, "forgetful"])
def test_it_asks_its_model_the_same_and_gives_the_same(stub: LlmStub, directory: Path, agent: str) -> None:
    held = f'pallas_model_tool_calls_total{{agent="{agent}",outcome="held",server="tools"}}'
    with (
        run_worker(directory, agent=agent, overrides=True) as one,
        run_worker(directory, agent=agent, overrides=True, metrics_slot="demo1") as other,
    ):
        begin(stub)
        whole = turn(one, agent, MESSAGE, HISTORY)
        expected = wire(stub)
        assert (whole.finish, len(expected)) == ("stop", 3)
        assert returned(whole) == [("tools__add", True), ("tools__echo", True), ("tools__fail", False)]

        begin(stub)
        first = turn(one, agent, MESSAGE, HISTORY, hold=["tools__add", "tools__fail"])
        assert (first.finish, first.text, first.events) == ("tool_calls", "Let me see.", [])
        assert [call["function"]["name"] for call in first.rows[-1]["tool_calls"]] == [
            "tools__echo",
            "tools__add",
        ]
        assert metric(one, held) == 1
        second = turn(other, agent, "", HISTORY + first.rows, hold=["tools__add", "tools__f*"], resume=True)
        assert (second.finish, second.text) == ("tool_calls", "One more.")
        assert [row["role"] for row in second.rows] == ["tool", "tool", "assistant"]
        third = turn(one, agent, "", HISTORY + first.rows + second.rows, resume=True)
        assert third.finish == "stop"
        assert wire(stub) == expected
        assert first.rows + second.rows + third.rows == whole.rows
        assert returned(second, third) == returned(whole)


def test_a_caller_answers_a_call_in_its_tools_place(
    stub: LlmStub, tools: RunningDownstream, chat: RunningWorker
) -> None:
    held = turn(chat, "chat", MESSAGE, hold=["tools__echo"])
    ids = [call["id"] for call in held.rows[-1]["tool_calls"]]
    denied = {"role": "tool", "tool_call_id": ids[0], "content": "denied", "is_error": True}
    gone_on = turn(chat, "chat", "", [*held.rows, denied], hold=["tools__fail"], resume=True)
    assert returned(gone_on) == [("tools__add", True)]
    first, second = stub.asked[-1].tool_results
    assert first == "denied"
    assert "3.0" in second
    assert [row.get("tool_call_id") for row in gone_on.rows] == [ids[1], None]


def test_what_is_taken_up_passes_the_guard(stub: LlmStub, chat: RunningWorker) -> None:
    held = turn(chat, "chat", MESSAGE, hold=["*"])
    begin(stub)
    gone_on = turn(chat, "chat", "", held.rows, tools_allowlist=["tools__echo"], resume=True)
    assert returned(gone_on) == [("tools__add", False), ("tools__echo", True), ("tools__fail", False)]
    assert stub.asked[0].tools == ("tools__echo",)
    _, refused = stub.asked[0].tool_results
    assert "'tools__add' is not available to this agent; available tools: tools__echo" in refused


def test_a_call_inside_another_agent_is_refused_where_it_would_have_to_wait(
    stub: LlmStub, tools: RunningDownstream, chat: RunningWorker, directory: Path
) -> None:
    tools.forget()
    inner = 'CALL tools__echo {"text": "x"}'
    stub.script(Turn(calls=(Call("agent__child", {"message": inner}),)))
    told = turn(chat, "chat", "x", hold=["tools__echo"])
    assert told.finish == "stop"
    assert "inside the agent 'child[1]' cannot wait for one" in stub.asked[-1].tool_results[0]
    held = turn(chat, "chat", 'CALL agent__child {"message": "x"}', hold=["agent__*"])
    assert held.finish == "tool_calls"
    with run_worker(directory, agent="chain", overrides=True, metrics_slot="demo2") as chain:
        assert "cannot wait for one" in turn(chain, "chain", inner, hold=["tools__echo"]).text
        failure = turn(chain, "chain", "", held.rows, resume=True).failure
    assert failure is not None
    assert failure["param"] == "resume"
    assert failure["message"] == "a turn of this agent cannot be taken up: others answer in its place"
    assert not [request for request in tools.requests if request.rpc_method == "tools/call"]
