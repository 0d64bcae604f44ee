"""What chat completions of a real worker refuse, with which status, words and headers."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from support.worker.conversation.chat import PATH, error_in, post, request
from support.worker.conversation.llm import config, metric, spec
from support.worker.process import RunningWorker, run_worker
from support.worker.project import DEMO, project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakes.llm_stub import LlmStub

KEY = "start-key-0123456789-0123456789-0123456789"
JSON = {"Content-Type": "application/json"}
BODY = json.dumps(request("x")).encode()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, stub: LlmStub) -> Iterator[RunningWorker]:
    with run_worker(
        project(tmp_path_factory.mktemp("project"), config=config(stub)), key=KEY, **spec()
    ) as running:
        yield running


def send(
    worker: RunningWorker, content: bytes = BODY, headers: dict[str, str] | None = None
) -> httpx.Response:
    return httpx.post(worker.origin + PATH, content=content, headers=JSON | (headers or {}))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:80"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "text/plain; x=application/json"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_a_page_elsewhere_is_refused(worker: RunningWorker, headers: dict[str, str], status: int) -> None:
    assert send(worker, headers=headers).status_code == status


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_only_post(worker: RunningWorker, method: str) -> None:
    response = httpx.request(method, worker.origin + PATH)
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert error_in(response)["code"] == "method_not_allowed"


def test_models_are_only_read(worker: RunningWorker) -> None:
    listing = httpx.post(f"{worker.origin}/v1/models")
    assert (listing.status_code, listing.headers["allow"]) == (405, "GET")
    assert error_in(listing)["code"] == "method_not_allowed"


def test_other_paths(worker: RunningWorker) -> None:
    elsewhere = httpx.post(f"{worker.origin}/v1/elsewhere")
    assert elsewhere.status_code == 404
    assert "POST /v1/chat/completions" in error_in(elsewhere)["message"]
    missing = httpx.get(f"{worker.origin}/v1/models/gpt-4o")
    assert (missing.status_code, error_in(missing)["code"]) == (404, "model_not_found")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b'{"n": NaN}', b"[" * 100_000, b"[]", b'"x"'],
    ids=lambda body: repr(body[:10]),
)
def test_what_is_no_json_object(worker: RunningWorker, body: bytes) -> None:
    response = send(worker, body)
    assert (response.status_code, error_in(response)["code"]) == (400, "invalid_json")


def test_a_body_that_is_too_large_is_refused_before_it_is_read(worker: RunningWorker) -> None:
    with socket.create_connection(("127.0.0.1", worker.port)) as connection:
        head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {33 * 1024**2}\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 413")


def test_a_body_that_becomes_too_large_is_refused(tmp_path: Path) -> None:
    with run_worker(project(tmp_path), max_request_bytes=2048) as small:
        response = httpx.post(small.origin + PATH, content=iter([b" " * 1500] * 4), headers=JSON, timeout=60)
        assert (response.status_code, error_in(response)["code"]) == (413, "request_too_large")


@pytest.mark.parametrize("streamed", [False, True])
def test_another_model(worker: RunningWorker, streamed: bool) -> None:
    response = post(worker, "x", model="gpt-4o", stream=streamed)
    assert response.status_code == 404
    assert error_in(response) == {
        "message": "the model 'gpt-4o' does not exist here; this agent is 'demo'",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }


@pytest.mark.parametrize("streamed", [False, True])
def test_a_field_that_does_not_fit_is_named(worker: RunningWorker, streamed: bool) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
    response = post(worker, "a", {"role": "user", "content": [image]}, stream=streamed)
    assert response.status_code == 400
    error = error_in(response)
    assert error["param"] == "messages[1].content[0].image_url.url"
    assert error["message"].startswith(f"{error['param']} must be a data URL")


OVERRIDES: dict[str, Any] = {
    "system_override": "You are a pirate.",
    "model_override": "openai.other",
    "extra": {"a": 1},
    "hold": ["*"],
    "resume": True,
}


@pytest.mark.parametrize("name", OVERRIDES)
def test_an_override_needs_the_workers_key(worker: RunningWorker, stub: LlmStub, name: str) -> None:
    asked = len(stub.asked)
    response = post(worker, "x", **{name: OVERRIDES[name]})
    assert response.status_code == 403
    error = error_in(response)
    assert (error["param"], error["code"]) == (name, "override_forbidden")
    assert "Pallas-Key" in error["message"]
    assert "overrides: true" in error["message"]
    assert len(stub.asked) == asked
    assert post(worker, "x", headers={"Pallas-Key": KEY}, **{name: OVERRIDES[name]}).status_code != 403
    assert post(worker, "x", **{name: None}).status_code == 200


@pytest.mark.parametrize("shown", ["", "x", KEY[:-1], KEY + "x", "Bearer " + KEY])
def test_another_key_is_refused_whatever_is_asked(worker: RunningWorker, shown: str) -> None:
    response = post(worker, "x", headers={"Pallas-Key": shown})
    assert (response.status_code, error_in(response)["code"]) == (403, "wrong_key")


def test_overrides_for_all_where_the_agent_says_so(tmp_path: Path, stub: LlmStub) -> None:
    folder = project(tmp_path, config=config(stub), agents=DEMO.format(servers=[]))
    with run_worker(folder, overrides=True, **spec()) as open_worker:
        assert post(open_worker, "x", hold=["*"]).status_code == 200
        assert post(open_worker, "x", headers={"Pallas-Key": "any"}).status_code == 403


def test_refusals_are_counted_as_failed_calls(worker: RunningWorker) -> None:
    series = 'pallas_send_message_total{agent="demo",outcome="error"}'
    before = metric(worker, series)
    post(worker, "x", temperature="warm")
    assert metric(worker, series) == before + 1
