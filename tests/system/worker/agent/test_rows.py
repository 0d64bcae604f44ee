"""A conversation goes on from its rows in another process as if fast-agent had kept it: the same on the wire."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, Call, LlmStub, Turn, by_request, run_llm_stub
from support.data.image_data import PNG
from support.worker.conversation.llm import KEY
from support.worker.conversation.session import Session, run_session
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MODELS = {
    "chat": "openai.gpt-4.1",
    "responses": "responses.gpt-5",
    "anthropic": "anthropic.claude-sonnet-4-5?reasoning=low",
    "generic": "generic.moonshotai/kimi-k2.6",
}
"""Agent → its model: one of each of the APIs, and one of a compatible server that wants its reasoning back."""

AGENTS = (
    """
from fast_agent import FastAgent

fast = FastAgent("tests")
"""
    + "".join(
        f"""

@fast.agent(name={name!r}, model={model!r}, instruction="You are an agent.", servers=["tools"])
async def {name}(): ...
"""
        for name, model in MODELS.items()
    )
    + """

@fast.chain(name="both", sequence=["chat"])
async def both(): ...
"""
)

IMAGE = {"data": PNG, "mime_type": "image/png"}
PICTURE = json.dumps({"data": PNG})
TURNS: tuple[tuple[str, tuple[dict[str, str], ...]], ...] = (
    ('Look!\nCALL tools__echo {"text": "deep"}\nCALL tools__add {"a": 1, "b": 2.5}', (IMAGE,)),
    (f'CALL tools__fail {{"text": "no"}}\nCALL tools__picture {PICTURE}\nCALL tools__echo {{}}', ()),
    ("What now?", ()),
    ('Twice.\nCALL tools__echo {"text": "again"}', ()),
)

MADE_UP = ("prompt_cache_key",)
"""What fast-agent makes up for each of its instances."""


def thinking(asked: Asked) -> Turn:
    """Thinks before each answer, talks before it calls tools, and calls one once more where that says `again`."""
    turn = by_request(asked)
    if asked.tool_results and "again" in asked.tool_results[-1]:
        turn = Turn(calls=(Call("tools__echo", {"text": "é \u2713", "n": 1e22}),))
    elif turn.calls:
        turn = dataclasses.replace(turn, text="Let me look.")
    return dataclasses.replace(turn, reasoning=f"I think of {asked.messages}.")


@pytest.fixture(scope="module")
def stub() -> Iterator[LlmStub]:
    with run_llm_stub(answer=thinking) as running:
        yield running


@pytest.fixture(scope="module")
def directory(stub: LlmStub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    config = (
        f"openai: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
        f"responses: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
        f"generic: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
        f"anthropic: {{api_key: {KEY}, base_url: '{stub.anthropic_url}'}}\n"
        "llm_retries: 0\n"
        "auto_sampling: false\n"
    )
    with run_downstream(pictures=True) as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        yield project(tmp_path_factory.mktemp("project"), agents=AGENTS, servers=servers, config=config)


@pytest.fixture(scope="module")
def session(directory: Path) -> Iterator[Session]:
    with run_session(directory) as running:
        yield running


@dataclasses.dataclass
class Kept:
    """What fast-agent has sent in one turn of a conversation that it keeps, and the turn's rows."""

    number: int
    bodies: list[Mapping[str, Any]]
    rows: list[dict[str, Any]]


def kept(stub: LlmStub, session: Session, agent: str) -> list[Kept]:
    turns = []
    number = 1
    for message, images in TURNS:
        stub.asked.clear()
        stub.number_from(number)
        rows = session.turn(agent, message, *images)
        turns.append(Kept(number, wire(stub), rows))
        number += len(stub.asked)
    return turns


def wire(stub: LlmStub) -> list[Mapping[str, Any]]:
    return [
        {name: value for name, value in asked.body.items() if name not in MADE_UP} for asked in stub.asked
    ]


class Workers(NamedTuple):
    """Two processes that serve the same agent."""

    agent: str
    one: RunningWorker
    other: RunningWorker


@pytest.fixture(scope="module", params=MODELS)
def workers(request: pytest.FixtureRequest, directory: Path) -> Iterator[Workers]:
    agent = str(request.param)
    with (
        run_worker(directory, agent=agent, overrides=True) as one,
        run_worker(directory, agent=agent, metrics_slot="other0") as other,
    ):
        yield Workers(agent, one, other)


def test_the_next_turn_is_the_same_on_the_wire(stub: LlmStub, session: Session, workers: Workers) -> None:
    turns = kept(stub, session, workers.agent)
    assert [len(turn.bodies) for turn in turns] == [2, 2, 1, 3]
    history: list[Any] = []
    for turn, (message, images) in zip(turns, TURNS, strict=True):
        stub.asked.clear()
        stub.number_from(turn.number)
        said: dict[str, Any] = {"message": message, "images": list(images), "history": history}
        call(workers.other.url, "auto", "send_message", **said)
        assert wire(stub) == turn.bodies
        stub.asked.clear()
        stub.number_from(turn.number)
        content = [{"type": "text", "text": message}, *map(part, images)]
        answer = complete(workers.one, workers.agent, *history, {"role": "user", "content": content})
        assert wire(stub) == turn.bodies
        assert answer["pallas"]["messages"] == turn.rows
        history += turn.rows
    assert not left_out(workers.one)
    assert not left_out(workers.other)


def test_a_turn_goes_on_from_results_that_the_client_has(stub: LlmStub, workers: Workers) -> None:
    """A held call whose result the client knows: what follows is the same as if the worker had made it."""
    message = {"role": "user", "content": 'CALL tools__add {"a": 1, "b": 2}'}
    _, worker, other = workers
    stub.asked.clear()
    stub.number_from(1)
    whole = complete(worker, workers.agent, message)["pallas"]["messages"]
    wanted = wire(stub)
    stub.asked.clear()
    stub.number_from(1)
    rows = complete(worker, workers.agent, message, hold=["*"])["pallas"]["messages"]
    assert [row["role"] for row in rows] == ["user", "assistant"]
    result = whole[2]
    rest = complete(other, workers.agent, *rows, result)["pallas"]["messages"]
    assert wire(stub) == wanted
    assert [*rows, result, *rest] == whole


def test_what_has_no_counterpart_does_not_reach_the_model(stub: LlmStub, workers: Workers) -> None:
    """What is left out is as if it had never been there; providers refuse calls without results, and the reverse."""
    user, calls = {"role": "user", "content": "hello"}, [tool_call("1"), tool_call("2")]
    good = [
        user,
        {"role": "assistant", "content": "Look", "tool_calls": calls[:1]},
        {"role": "tool", "tool_call_id": "1", "content": "one"},
        {"role": "assistant", "content": "done"},
    ]
    bad = [
        {"role": "tool", "tool_call_id": "1", "content": "nobody has asked"},
        user,
        {"role": "assistant", "content": "Look", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": "one"},
        {"role": "tool", "tool_call_id": "1", "content": "once more"},
        {"role": "assistant", "content": "done", "pallas": {"channels": {"other": []}}},
        {"role": "assistant", "content": None, "tool_calls": calls[1:]},
    ]
    before = len(left_out(workers.one))
    stub.asked.clear()
    call(workers.one.url, "auto", "send_message", message="and?", history=good)
    call(workers.one.url, "auto", "send_message", message="and?", history=bad)
    complete(workers.one, workers.agent, *bad, {"role": "user", "content": "and?"})
    first, second, third = wire(stub)
    assert first == second == third
    named = [
        "history[0] skipped: tool_call_id '1' is that of no call of the assistant's row before it",
        "history[2] calls left out: tool_calls without a result: '2'",
        "history[4] skipped: there is a result of '1' already",
        "history[6] skipped: tool_calls without a result: '2'",
        "history[5] state left out: pallas.channels has 'other', which is no channel of a provider",
    ]
    assert left_out(workers.one)[before:] == named * 2


def test_an_agent_that_is_made_of_others_keeps_what_was_said(stub: LlmStub, directory: Path) -> None:
    with run_worker(directory, agent="both", metrics_slot="both0") as worker:
        calling = 'CALL tools__add {"a": 1, "b": 2}'
        answer = complete(worker, "both", {"role": "user", "content": calling})
        said = answer["choices"][0]["message"]["content"].removeprefix("Let me look.\n\n")
        rows = answer["pallas"]["messages"]
        assert rows == [{"role": "user", "content": calling}, {"role": "assistant", "content": said}]
        own = [
            {"role": "assistant", "content": "Look", "tool_calls": [tool_call("1")]},
            {"role": "tool", "tool_call_id": "1", "content": "one"},
        ]
        stub.asked.clear()
        complete(worker, "both", *rows, *own, {"role": "user", "content": "and?"})
        spoken = [(one["role"], one["content"]) for one in stub.asked[0].body["messages"][1:]]
        assert spoken == [("user", calling), ("assistant", said), ("assistant", "Look"), ("user", "and?")]
        refused = post(worker, "both", *rows, *own)
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "messages"


def complete(worker: RunningWorker, agent: str, *messages: Any, **fields: Any) -> Any:
    """The answer to a request for chat completions."""
    response = post(worker, agent, *messages, **fields)
    assert response.status_code == 200, response.text
    return response.json()


def post(worker: RunningWorker, agent: str, *messages: Any, **fields: Any) -> httpx.Response:
    body = {"model": agent, "messages": messages, **fields}
    return httpx.post(f"{worker.origin}/v1/chat/completions", json=body, timeout=60)


def part(image: Mapping[str, str]) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image['mime_type']};base64,{image['data']}"}}


def tool_call(id_: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "tools__echo", "arguments": "{}"}}


def left_out(worker: RunningWorker) -> list[str]:
    return [message for message in worker.messages("WARNING") if "history[" in message]
