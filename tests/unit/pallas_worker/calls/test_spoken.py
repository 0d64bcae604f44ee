"""What is told of what models say: the answer's pieces make the answer, whatever was streamed."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import ImageContent, TextContent

from pallas_worker.calls.spoken import Spoken
from pallas_worker.interface.turn import TakenBack, Text, TurnEvent

if TYPE_CHECKING:
    from types import FrameType

    from pallas_worker.interface.turn import TextKind


class Reader:
    """What a caller has, of all it was told."""

    def __init__(self, *speakers: str) -> None:
        self.events: list[TurnEvent] = []
        self.spoken = Spoken(self.events.append)
        self.spoken.speakers = frozenset(speakers)

    @property
    def answer(self) -> str:
        said = ""
        for event in self.events:
            if isinstance(event, Text) and event.kind == "answer":
                said += event.text
            elif isinstance(event, TakenBack) and event.kind == "answer":
                assert event.characters <= len(said)
                said = said[: len(said) - event.characters]
        return said

    def say(self, model: object, agent: str, *pieces: str, reasoning: bool = False) -> None:
        for piece in pieces:
            self.spoken.piece(model, agent, piece, reasoning=reasoning)

    def settle(self, *texts: str) -> None:
        self.spoken.settle("demo", [TextContent(type="text", text=text) for text in texts])


def test_pieces_are_told_as_they_come() -> None:
    reader = Reader("demo")
    reader.say("llm", "demo", "it ", "is ")
    assert reader.events == [Text("demo", "it "), Text("demo", "is ")]
    reader.say("llm", "demo", "so")
    reader.spoken.end("llm")
    before = list(reader.events)
    reader.settle("it is so")
    assert reader.events == before


def test_a_blank_line_stands_before_the_next_message() -> None:
    reader = Reader("demo")
    reader.say("llm", "demo", "I look.")
    reader.spoken.end("llm")
    reader.say("llm", "demo", "It", " is so.")
    assert reader.answer == "I look.\n\nIt is so."
    before = list(reader.events)
    reader.settle("I look.", "It is so.")
    assert reader.events == before


def test_what_others_say_is_no_part_of_the_answer() -> None:
    reader = Reader("demo")
    reader.say("other", "child[1]", "x")
    reader.say("llm", "demo", "hm", reasoning=True)
    reader.say("llm", "demo", "yes")
    assert reader.events == [
        Text("child[1]", "x", "other"),
        Text("demo", "hm", "reasoning"),
        Text("demo", "yes", "answer"),
    ]


def test_a_model_that_is_asked_again_takes_back_all_it_had_begun() -> None:
    reader = Reader("demo")
    reader.say("llm", "demo", "first")
    reader.spoken.end("llm")
    reader.say("llm", "demo", "hmm", reasoning=True)
    reader.say("llm", "demo", "sec", "o")
    reader.spoken.begin_again("llm", "demo")
    assert reader.events[-2:] == [TakenBack("demo", 3, "reasoning"), TakenBack("demo", len("\n\nseco"))]
    reader.say("llm", "demo", "second")
    assert reader.answer == "first\n\nsecond"


def test_asked_again_before_a_word_takes_nothing_back() -> None:
    reader = Reader("demo")
    reader.say("llm", "demo", "first")
    reader.spoken.end("llm")
    reader.spoken.begin_again("llm", "demo")
    assert reader.answer == "first"


def test_another_agents_message_that_is_void_leaves_the_answer() -> None:
    reader = Reader("demo")
    reader.say("llm", "demo", "yes")
    reader.say("other", "child", "no", "pe")
    reader.spoken.begin_again("other", "child")
    assert reader.events[-1] == TakenBack("child", 4, "other")
    assert reader.answer == "yes"


@pytest.mark.parametrize(
    ("told", "texts", "more"),
    [
        ([], ["all of it"], [Text("demo", "all of it")]),
        (["so"], ["so", "and so"], [Text("demo", "\n\nand so")]),
        (["it is no"], ["it is so"], [TakenBack("demo", 2), Text("demo", "so")]),
        (["it is so."], ["it is so"], [TakenBack("demo", 1)]),
        (["bad"], ["good"], [TakenBack("demo", 3), Text("demo", "good")]),
        (["I look."], ["I look.", ""], [Text("demo", "\n\n")]),
        (["x"], [], [TakenBack("demo", 1)]),
    ],
)
def test_the_end_mends_what_differs(told: list[str], texts: list[str], more: list[TurnEvent]) -> None:
    reader = Reader("demo")
    reader.say("llm", "demo", *told)
    before = len(reader.events)
    reader.settle(*texts)
    assert reader.events[before:] == more
    assert reader.answer == "\n\n".join(texts)


def test_a_long_answer_is_not_compared_character_by_character() -> None:
    reader = Reader("demo")
    reader.say("llm", "demo", "x" * 100_000, "y")
    lines = 0

    def trace(_frame: FrameType, _event: str, _arg: object) -> Any:
        nonlocal lines
        lines += 1
        return trace

    sys.settrace(trace)
    try:
        reader.settle("x" * 100_000 + "z")
    finally:
        sys.settrace(None)
    assert reader.events[-2:] == [TakenBack("demo", 1), Text("demo", "z")]
    assert lines < 1000


def test_images_are_no_text() -> None:
    reader = Reader("demo")
    image = ImageContent(type="image", data="AAAA", mime_type="image/png")
    reader.spoken.settle("demo", [image])
    assert reader.events == []


def test_whatever_happens_the_pieces_make_the_answer() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        reader = Reader("demo", "second")
        for _ in range(chance.randrange(30)):
            agent = chance.choice(["demo", "second", "child"])
            match chance.randrange(5):
                case 0:
                    reader.spoken.end(agent)
                case 1:
                    reader.spoken.begin_again(agent, agent)
                case _:
                    reader.say(
                        agent, agent, chance.choice(["a", "bc", "\n"]), reasoning=chance.random() < 0.2
                    )
        texts = [chance.choice(["", "a", "abc"]) for _ in range(chance.randrange(3))]
        reader.settle(*texts)
        assert reader.answer == "\n\n".join(texts)


def test_a_pair_that_is_cut_in_two_is_one_character() -> None:
    reader = Reader("demo")
    reader.say("llm", "demo", "a\ud83d", "\ude00b")
    reader.settle("a\U0001f600b")
    assert reader.events == [Text("demo", "a"), Text("demo", "\U0001f600b")]


@pytest.mark.parametrize("pieces", [("a\ud83d", "b"), ("a", "\ud83d", "b"), ("a\ud83db",)])
def test_half_of_a_pair_stands_for_no_character(pieces: tuple[str, ...]) -> None:
    reader = Reader("demo")
    reader.say("llm", "demo", *pieces)
    assert reader.answer == "a\ufffdb"


@pytest.mark.parametrize("reasoning", [True, False])
def test_half_of_a_pair_at_the_end_is_told_with_the_end(reasoning: bool) -> None:
    reader = Reader("demo")
    reader.say("llm", "demo", "a\ud83d", reasoning=reasoning)
    reader.spoken.end("llm")
    kind: TextKind = "reasoning" if reasoning else "answer"
    assert reader.events == [Text("demo", "a", kind), Text("demo", "\ufffd", kind)]


def test_what_a_reader_keeps_for_good_is_not_begun_again() -> None:
    """A client that cannot take text back would read the beginning twice."""
    spoken = Spoken(lambda _: None, takes_back=False)
    spoken.speakers = frozenset({"demo"})
    assert spoken.may_begin_again(1)
    spoken.piece(1, "child", "x", reasoning=False)
    assert spoken.may_begin_again(1)  # OpenAI's chunks have no place for it
    spoken.piece(2, "demo", "x", reasoning=False)
    spoken.piece(3, "child", "x", reasoning=True)
    assert not spoken.may_begin_again(2)
    assert not spoken.may_begin_again(3)
    spoken.end(2)
    assert spoken.may_begin_again(2)
    taking = Spoken(lambda _: None)
    taking.piece(1, "demo", "x", reasoning=True)
    assert taking.may_begin_again(1)
