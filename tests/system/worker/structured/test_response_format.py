"""Chat completions whose answer has a form: whole, streamed, refused, and one that no model gives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fakes.llm_stub import LlmStub, Turn
from support.worker.conversation.llm import config, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = {"type": "object", "properties": {"degrees": {"type": "integer"}}, "required": ["degrees"]}
GOOD = '{"degrees": 7}'


@pytest.fixture(scope="module")
def worker(stub: LlmStub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    folder = project(tmp_path_factory.mktemp("project"), config=config(stub))
    with run_worker(folder, **spec()) as running:
        yield running


def chat(worker: RunningWorker, form: Any, **more: Any) -> httpx.Response:
    body = {"model": "demo", "messages": [{"role": "user", "content": "How warm?"}], "response_format": form}
    return httpx.post(f"{worker.origin}/v1/chat/completions", json={**body, **more}, timeout=120)


def by_schema(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "weather", "schema": schema, "strict": True}}


def test_the_answer_is_the_json_alone(stub: LlmStub, worker: RunningWorker) -> None:
    stub.script(Turn(text="Warm."), Turn(text=f"```json\n{GOOD}\n```"))
    answer = chat(worker, by_schema(SCHEMA)).json()
    assert answer["choices"][0]["message"]["content"] == GOOD
    assert stub.asked[-1].body["response_format"]["type"] == "json_schema"


def test_any_object(stub: LlmStub, worker: RunningWorker) -> None:
    stub.script(Turn(text="[1]"), Turn(text=GOOD))
    answer = chat(worker, {"type": "json_object"}).json()
    assert answer["choices"][0]["message"]["content"] == GOOD
    assert stub.asked[-1].body["response_format"] == {"type": "json_object"}
    assert "JSON" in json.dumps(stub.asked[-1].body["messages"]), "which OpenAI insists on"


def test_a_stream_has_the_answer_in_one_piece_once_it_fits(stub: LlmStub, worker: RunningWorker) -> None:
    stub.script(Turn(text="It is quite warm."), Turn(text=GOOD))
    lines = chat(worker, by_schema(SCHEMA), stream=True).text.splitlines()
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    deltas = [choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]]
    assert [delta for delta in deltas if delta] == [GOOD]


def test_an_answer_that_never_fits_is_an_error(stub: LlmStub, worker: RunningWorker) -> None:
    stub.script(*[Turn(text='{"degrees": "s3cret"}')] * 3)
    answer = chat(worker, by_schema(SCHEMA))
    assert answer.status_code >= 500
    assert '/degrees: is not of type "integer"' in answer.json()["error"]["message"]
    assert "s3cret" not in answer.text


def test_a_dangerous_schema_is_refused_with_its_place(stub: LlmStub, worker: RunningWorker) -> None:
    before = len(stub.asked)
    answer = chat(worker, by_schema({"properties": {"a": {"$ref": "http://169.254.169.254/"}}}))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "response_format.json_schema.schema/properties/a/$ref"
    assert len(stub.asked) == before


def test_what_was_asked_again_is_not_in_the_rows_of_the_turn(stub: LlmStub, worker: RunningWorker) -> None:
    stub.script(Turn(text="It is quite warm."), Turn(text=GOOD))
    answer = chat(worker, by_schema(SCHEMA)).json()
    rows = answer["pallas"]["messages"]
    assert [(row["role"], row["content"]) for row in rows] == [("user", "How warm?"), ("assistant", GOOD)]
