"""What a call hears of the models that are asked in it, by fast-agent's own loop of attempts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from fast_agent.llm.fastagent_llm import FastAgentLLM
from fast_agent.llm.internal.passthrough import PassthroughLLM
from fast_agent.llm.stream_types import StreamChunk

from pallas_worker.calls.spoken import Spoken
from pallas_worker.fastagent.current_call import CurrentCall, as_current
from pallas_worker.fastagent.streams.tap import tap_streams
from pallas_worker.interface.turn import TakenBack, Text, TurnEvent, TurnRequest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch) -> PassthroughLLM:
    monkeypatch.setattr(
        FastAgentLLM, "_notify_stream_listeners", FastAgentLLM._notify_stream_listeners
    )  # so that it is put back afterwards
    tap_streams()
    tap_streams()
    llm = PassthroughLLM(name="demo")
    llm.retry_count, llm.retry_backoff_seconds = 2, 0.0
    return llm


def heard(llm: PassthroughLLM, *attempts: Callable[[], None]) -> list[TurnEvent]:
    """What a call is told while its model is asked, each time with the next of these attempts."""
    events: list[TurnEvent] = []
    spoken = Spoken(events.append)
    spoken.speakers = frozenset({"demo"})
    remaining = iter(attempts)

    async def ask() -> str:
        next(remaining)()
        return "whole"

    async def run() -> None:
        with as_current(CurrentCall(TurnRequest(), events.append, spoken)):
            await asyncio.create_task(llm._execute_with_retry(ask))

    asyncio.run(run())
    return events


def say(llm: PassthroughLLM, *pieces: str, reasoning: bool = False) -> None:
    for piece in pieces:
        llm._notify_stream_listeners(StreamChunk(piece, is_reasoning=reasoning))


def test_pieces_are_heard_once_and_in_their_order(llm: PassthroughLLM) -> None:
    listener: list[str] = []
    llm.add_stream_listener(lambda chunk: listener.append(chunk.text))

    def attempt() -> None:
        say(llm, "hm", reasoning=True)
        say(llm, "it ", "", "is")

    assert heard(llm, attempt) == [Text("demo", "hm", "reasoning"), Text("demo", "it "), Text("demo", "is")]
    assert listener == ["hm", "it ", "is", ""]


def test_an_attempt_that_fails_is_taken_back_and_the_next_one_begins_anew(llm: PassthroughLLM) -> None:
    def broken() -> None:
        say(llm, "it ", "i")
        raise ConnectionError("cut")

    assert heard(llm, broken, lambda: say(llm, "it is so")) == [
        Text("demo", "it "),
        Text("demo", "i"),
        TakenBack("demo", 4),
        Text("demo", "it is so"),
    ]


def test_nobody_hears_a_model_that_no_call_has_asked(llm: PassthroughLLM) -> None:
    say(llm, "x")


def test_the_next_message_follows_a_blank_line(llm: PassthroughLLM) -> None:
    events: list[TurnEvent] = []
    spoken = Spoken(events.append)
    spoken.speakers = frozenset({"demo"})

    async def ask(text: str) -> None:
        say(llm, text)

    async def run() -> None:
        with as_current(CurrentCall(TurnRequest(), events.append, spoken)):
            await llm._execute_with_retry(ask, "one")
            await llm._execute_with_retry(ask, "two")

    asyncio.run(run())
    assert events == [Text("demo", "one"), Text("demo", "\n\ntwo")]
