"""Chat completions of a worker over plain HTTP, and the events of a stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from support.worker.process import RunningWorker

PATH = "/v1/chat/completions"


def request(*messages: str | dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body of a request to the agent `demo`; a text is a message of the user."""
    rows = [{"role": "user", "content": row} if isinstance(row, str) else row for row in messages]
    return {"model": "demo", "messages": rows, **fields}


def post(
    worker: RunningWorker,
    *messages: str | dict[str, Any],
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> httpx.Response:
    """The response to a request."""
    return httpx.post(worker.origin + PATH, json=request(*messages, **fields), headers=headers)


def stream(
    worker: RunningWorker,
    *messages: str | dict[str, Any],
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> list[Any]:
    """The events of a streamed answer, without `[DONE]`, which has to be the last one."""
    response = post(worker, *messages, headers=headers, stream=True, **fields)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream"
    *found, last = events(response.text.splitlines())
    assert last == "[DONE]"
    return found


def events(lines: Iterable[str]) -> list[Any]:
    """The data of server-sent events; comments are passed over."""
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [entry if entry == "[DONE]" else json.loads(entry) for entry in data]


def answer_in(chunks: Iterable[Any]) -> str:
    """The answer that the chunks tell, without what they take back."""
    said = ""
    for chunk in chunks:
        for choice in chunk["choices"]:
            said += choice["delta"].get("content") or ""
        retry = chunk.get("pallas", {})
        if retry.get("type") == "retry" and retry["of"] == "answer":
            said = said[: len(said) - retry["characters"]]
    return said


def told(chunks: Iterable[Any], kind: str) -> list[dict[str, Any]]:
    """What the extra field `pallas` tells of this type, without the type."""
    found = [chunk.get("pallas", {}) for chunk in chunks]
    return [
        {key: entry[key] for key in entry if key != "type"} for entry in found if entry.get("type") == kind
    ]


def error_in(response: httpx.Response) -> dict[str, Any]:
    """The error object of a response, beside which is what a stream would say of it."""
    document = response.json()
    assert list(document) == ["error", "pallas"]
    assert document["pallas"]["status"] == response.status_code
    error: dict[str, Any] = document["error"]
    assert list(error) == ["message", "type", "param", "code"]
    return error
