"""OpenAI's own Python client, unchanged, against a real worker: answers, streams, tools in the history, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import LlmStub, Turn
from support.data.image_data import PNG
from support.worker.conversation.llm import config, spec
from support.worker.process import run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "start-key-0123456789-0123456789-0123456789"
ADD = 'CALL tools__add {"a": 2, "b": 3}'


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, stub: LlmStub) -> Iterator[openai.OpenAI]:
    with run_downstream() as server:
        folder = project(
            tmp_path_factory.mktemp("project"),
            config=config(stub),
            servers={"tools": {"transport": "http", "url": server.url}},
        )
        with (
            run_worker(folder, key=KEY, **spec()) as worker,
            openai.OpenAI(base_url=f"{worker.origin}/v1", api_key="unused") as client,
        ):
            yield client


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").owned_by == "tests"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4o")


def test_a_conversation_with_a_tool_call_and_an_image(client: openai.OpenAI, stub: LlmStub) -> None:
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, user(ADD)]
    answer = client.chat.completions.create(model="demo", messages=messages)
    assert (answer.choices[0].message.content or "").startswith("tools said: ")
    assert answer.usage is not None
    assert answer.usage.total_tokens == 240
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    messages += [
        answer.choices[0].message,
        {"role": "user", "content": [{"type": "text", "text": "?"}, image]},
    ]
    again = client.chat.completions.create(model="demo", messages=messages, max_completion_tokens=50)
    assert again.choices[0].message.content == "echo: ?"
    rows = (answer.model_extra or {})["pallas"]["messages"]
    client.chat.completions.create(model="demo", messages=[*rows, user("and now?")])
    roles = [message["role"] for message in stub.asked[-1].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_a_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model="demo", messages=[user(ADD)], stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    said = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert said.startswith("tools said: ")
    assert chunks[-1].usage is not None
    kinds = [(chunk.model_extra or {}).get("pallas", {}).get("type") for chunk in chunks]
    assert [kind for kind in kinds if kind] == ["tool_call", "tool_result", "turn"]


def test_the_helper_for_streams_puts_the_answer_together(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="demo", messages=[user("hello")]) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "echo: hello"
    assert final.choices[0].finish_reason == "stop"


def test_extra_fields_and_headers(client: openai.OpenAI) -> None:
    held = client.chat.completions.create(
        model="demo", messages=[user(ADD)], extra_body={"hold": ["*"]}, extra_headers={"Pallas-Key": KEY}
    )
    [call] = held.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "tools__add"


def test_errors(client: openai.OpenAI, stub: LlmStub) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="demo", messages=[user("x")], temperature=9)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-4o", messages=[user("x")])
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.PermissionDeniedError):
        client.chat.completions.create(
            model="demo", messages=[user("x")], extra_body={"extra": {}, "hold": ["*"]}
        )
    asked = len(stub.asked)
    stub.script(*[Turn(status=400, text="no such luck")] * 10)
    try:
        with pytest.raises(openai.InternalServerError) as failed:
            client.chat.completions.create(model="demo", messages=[user("x")])
    finally:
        stub.script()
    assert failed.value.status_code == 502
    assert len(stub.asked) == asked + 1, "the client has not tried again by itself"
