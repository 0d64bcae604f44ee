"""A conversation goes on from its rows in another process as if fast-agent had kept it: the same on the wire."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, Call, LlmStub, Turn, by_request, run_llm_stub
from support.data.image_data import PNG
from support.worker.llm import KEY
from support.worker.process import RunningWorker, run_worker
from support.worker.project import call, project
from support.worker.session import Session, run_session

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

AGENTS = """
from fast_agent import FastAgent

fast = FastAgent("tests")
""" + "".join(
    f"""

@fast.agent(name={name!r}, model={model!r}, instruction="You are an agent.", servers=["tools"])
async def {name}(): ...
"""
    for name, model in MODELS.items()
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


@pytest.mark.parametrize("agent", MODELS)
def test_the_next_turn_is_the_same_on_the_wire(
    stub: LlmStub, session: Session, directory: Path, agent: str
) -> None:
    turns = kept(stub, session, agent)
    assert [len(turn.bodies) for turn in turns] == [2, 2, 1, 3]
    with run_worker(directory, agent=agent) as worker:
        history: list[dict[str, Any]] = []
        for turn, (message, images) in zip(turns, TURNS, strict=True):
            stub.asked.clear()
            stub.number_from(turn.number)
            call(worker.url, "auto", "send_message", message=message, images=list(images), history=history)
            assert wire(stub) == turn.bodies
            history += turn.rows
        assert not left_out(worker)


def test_what_has_no_counterpart_does_not_reach_the_model(stub: LlmStub, directory: Path) -> None:
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
    for agent in MODELS:
        with run_worker(directory, agent=agent) as worker:
            stub.asked.clear()
            for history in (good, bad):
                call(worker.url, "auto", "send_message", message="and?", history=history)
            first, second = wire(stub)
            assert first == second
            assert left_out(worker) == [
                "history[0] skipped: tool_call_id '1' is that of no call of the assistant's row before it",
                "history[2] calls left out: tool_calls without a result: '2'",
                "history[4] skipped: there is a result of '1' already",
                "history[6] skipped: tool_calls without a result: '2'",
                "history[5] state left out: pallas.channels has 'other', which is no channel of a provider",
            ]


def tool_call(id_: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "tools__echo", "arguments": "{}"}}


def left_out(worker: RunningWorker) -> list[str]:
    return [message for message in worker.messages("WARNING") if "history[" in message]
