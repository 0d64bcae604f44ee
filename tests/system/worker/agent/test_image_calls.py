"""Images through a worker to a real LLM provider's client: the client's own bytes arrive, or the caller is told."""

from __future__ import annotations

import base64
import random
from typing import TYPE_CHECKING, Any

import pytest

from support.data.image_data import BASE64, CONTENT
from support.worker.conversation.llm import KEY, config, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import MODES, call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakes.llm_stub import LlmStub

OTHERS = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="stranger", model="openai.never-heard-of", instruction="Nobody knows my model.")
async def stranger(): ...


@fast.agent(name="seeing", instruction="My model sees.")
async def seeing(): ...


@fast.chain(name="blind_first", sequence=["stranger", "seeing"])
async def blind_first(): ...


@fast.chain(name="seeing_first", sequence=["seeing", "stranger"])
async def seeing_first(): ...


@fast.iterative_planner(name="planner", agents=["seeing"])
async def planner(): ...
"""


@pytest.fixture(scope="module")
def worker(stub: LlmStub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    directory = project(tmp_path_factory.mktemp("project"), config=config(stub))
    with run_worker(directory, **spec()) as running:
        yield running


def image(mime_type: str, more: bytes = b"") -> dict[str, str]:
    return {"data": base64.b64encode(CONTENT[mime_type] + more).decode(), "mime_type": mime_type}


def sent(message: dict[str, Any]) -> list[str]:
    """The images of one message as the provider got them."""
    content = message["content"]
    parts = content if isinstance(content, list) else []
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def url(image: dict[str, str]) -> str:
    return f"data:{image['mime_type']};base64,{image['data']}"


@pytest.mark.parametrize("mode", MODES)
def test_the_provider_gets_the_clients_own_bytes(worker: RunningWorker, stub: LlmStub, mode: str) -> None:
    noise = random.Random(7).randbytes(700_001)
    now = [image("image/webp"), image("image/png", noise)]
    first = [image("image/jpeg"), image("image/png")]
    history = [
        {"role": "user", "content": "look", "images": first},
        {"role": "assistant", "content": "I see"},
        {"role": "user", "content": "", "images": [image("image/jpeg", b"x")]},
        {"role": "assistant", "content": "and that"},
    ]
    answer = call(worker.url, mode, "demo", message="and now?", images=now, history=history)
    assert text(answer) == "echo: and now?"
    messages = stub.asked[-1].body["messages"]
    assert [(message["role"], sent(message)) for message in messages[1:]] == [
        ("user", [url(one) for one in first]),
        ("assistant", []),
        ("user", [url(image("image/jpeg", b"x"))]),
        ("assistant", []),
        ("user", [url(one) for one in now]),
    ]


def test_images_without_a_word(worker: RunningWorker, stub: LlmStub) -> None:
    answer = call(worker.url, "auto", "demo", message="", images=[image("image/png")])
    assert not answer.is_error
    assert sent(stub.asked[-1].body["messages"][-1]) == [url(image("image/png"))]


def test_a_type_that_the_model_does_not_take_is_refused(worker: RunningWorker, stub: LlmStub) -> None:
    before = len(stub.asked)
    answer = call(worker.url, "auto", "demo", message="x", images=[image("image/png"), image("image/gif")])
    assert answer.is_error
    expected = "images[1]: this agent's model takes image/png, image/jpeg, image/webp, not image/gif"
    assert text(answer) == expected
    assert len(stub.asked) == before


def test_a_row_with_a_malformed_image_keeps_its_text_and_is_named(
    worker: RunningWorker, stub: LlmStub
) -> None:
    false = {"data": BASE64["image/png"], "mime_type": "image/jpeg"}
    history = [
        {"role": "user", "content": "look", "images": [image("image/png"), false]},
        {"role": "assistant", "content": "I see"},
        {"role": "user", "content": "", "images": [false]},
    ]
    call(worker.url, "auto", "demo", message="x", history=history)
    asked = stub.asked[-1]
    assert (asked.messages, asked.images) == (4, 1)
    (first, _) = asked.body["messages"][1]["content"]
    assert first["text"] == "look\n\n[left out, because they cannot be read: 1 image]"
    why = "data is image/png by its content, and its mime_type says image/jpeg"
    for expected in (f"history[0] images left out: images[1].{why}", f"history[2] skipped: images[0].{why}"):
        worker.wait_until(lambda it, expected=expected: expected in it.messages("WARNING"))


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ("stranger", "this agent's model has no vision"),
        ("blind_first", "the model of its agent stranger has no vision"),
        ("planner", "this agent plans by the text alone and takes no images"),
        ("seeing_first", None),
    ],
)
def test_every_model_that_is_shown_the_message_has_to_see(
    tmp_path: Path, stub: LlmStub, agent: str, reason: str | None
) -> None:
    directory = project(tmp_path, agents=OTHERS, config=config(stub))
    with run_worker(directory, agent=agent, **spec()) as worker:
        before = len(stub.asked)
        answer = call(worker.url, "auto", agent, message="look", images=[image("image/png")])
        assert KEY not in text(answer)
        if reason is not None:
            assert answer.is_error
            assert text(answer) == f"images: {reason}"
            assert len(stub.asked) == before
        else:
            assert not answer.is_error
            assert [asked.images for asked in stub.asked[before:]] == [1, 0]
