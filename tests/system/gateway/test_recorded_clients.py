"""Requests of real chat clients and SDKs, as they were recorded, at a worker's port and at the gateway; and what such
clients send beside chat completions.

`scripts/record-chat-clients` makes the records. What a client made of OpenAI's answer is in each of them; an answer of
ours has to have all that OpenAI's had.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest
from scripts.lib.record_chat_clients import ANSWER, MODEL, RECORDS, WHOLE, chunks

from fakes.llm_stub import run_llm_stub
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, operator_token, with_gateway
from support.repository import ROOT
from support.worker.conversation.chat import answer_in, events

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE = ROOT / "docs" / "chat-completions.md"
CLIENTS = {path.stem: json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))}
ASKS = ("whole", "stream")
CHAT = "/chat/completions"


class Port(NamedTuple):
    """One of the two ports that answer OpenAI's API."""

    url: str
    """With `/v1`."""
    headers: Mapping[str, str]

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {**options.pop("headers", {}), **self.headers}
        with httpx.Client(headers=headers, timeout=60) as client:
            for name in ("accept", "accept-encoding", "user-agent", "connection"):
                if name not in {said.lower() for said in headers}:
                    del client.headers[name]
            return client.request(method, self.url + path, **options)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Port]]:
    with run_llm_stub() as llm:
        deployment = make_deployment(tmp_path_factory.mktemp("fleet"))
        deployment.settings = {
            "default_model": "openai.stub-model",
            "openai": {"api_key": "no-key", "base_url": llm.openai_url},
            "llm_retries": 0,
        }
        deployment.add(MODEL, "default_model")
        with Fleet(with_gateway(deployment, workers="open")) as fleet:
            fleet.wait()
            await_gateway(fleet)
            at_gateway = f"http://127.0.0.1:{deployment.document['gateway']['port']}/v1"
            yield {
                "worker": Port(deployment.url(MODEL).removesuffix("/mcp") + "/v1", {}),
                "gateway": Port(at_gateway, {"Authorization": f"Bearer {operator_token(fleet)}"}),
            }


@pytest.fixture(params=["worker", "gateway"])
def port(request: pytest.FixtureRequest, ports: Mapping[str, Port]) -> Port:
    return ports[request.param]


def error_in(answer: httpx.Response) -> dict[str, Any]:
    """The error of either port, in OpenAI's shape."""
    found: dict[str, Any] = answer.json()["error"]
    assert found.keys() == {"message", "type", "param", "code"}
    return found


def has_all_of(ours: Any, theirs: Any) -> bool:
    """Whether an answer has what the recorded one had: the same names, with values of the same kind."""
    match theirs:
        case dict():
            return isinstance(ours, dict) and all(
                name in ours and has_all_of(ours[name], value) for name, value in theirs.items()
            )
        case list():
            return isinstance(ours, list) and (not theirs or (bool(ours) and has_all_of(ours[0], theirs[0])))
    return theirs is None or type(ours) is type(theirs)


def asked_last(body: Mapping[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def ignored_on_page(title: str) -> tuple[str, set[str]]:
    """The version and the fields that are left out, as the page says them of a client."""
    (row,) = re.findall(rf"^\| {re.escape(title)} \| ([^|]+) \|([^|]*)\|$", PAGE.read_text(), re.MULTILINE)
    return row[0], set(re.findall(r"`([^`]+)`", row[1]))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_is_answered_as_it_asks(port: Port, name: str) -> None:
    record = CLIENTS[name]
    left_out: set[str] = set()
    for ask in ASKS:
        assert ANSWER.split()[-1].strip(".") in record[ask]["told"], "what the client made of the answer"
        for request in record[ask]["requests"]:
            assert request["has_key"]
            path, body = request["path"].removeprefix("/v1"), request["body"]
            content = None if body is None else json.dumps(body).encode()
            answer = port.ask(request["method"], path, headers=request["headers"], content=content)
            assert answer.status_code == 200, answer.text
            if path != CHAT:
                listed = answer.json()
                assert MODEL in (each["id"] for each in listed.get("data", [listed]))
                continue
            left_out |= set(filter(None, answer.headers.get("pallas-ignored", "").split(", ")))
            said = f"echo: {asked_last(body)}".strip()
            if ask == "whole":
                assert has_all_of(answer.json(), WHOLE)
                assert answer.json()["choices"][0]["message"]["content"].strip() == said
                assert set(answer.json()["pallas"]["ignored"]) == left_out
                continue
            *ours, done = events(answer.text.splitlines())
            assert done == "[DONE]"
            assert answer_in(ours).strip() == said
            wants_usage = (body.get("stream_options") or {}).get("include_usage")
            for chunk in chunks():
                if chunk["choices"] or wants_usage:
                    assert any(has_all_of(each, chunk) for each in ours), chunk
    assert (record["version"], left_out) == ignored_on_page(record["client"])


BODY = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}


def call(port: Port, method: str = "tools/call", params: Any = None, **headers: str) -> httpx.Response:
    """A request of MCP with nothing but its Content-Type, as the gateway's document has its client send it."""
    if params is None:
        params = {"name": "send_message", "arguments": {"message": "Hello"}}
        if port.headers:
            params = {"name": "ask_agent", "arguments": {"name": MODEL, "prompt": "Hello"}}
    body = {"jsonrpc": "2.0", "id": "c1", "method": method, "params": params}
    content = json.dumps(body).encode()
    at = port._replace(url=port.url.removesuffix("/v1"))
    return at.ask("POST", "/mcp", headers={"Content-Type": "application/json", **headers}, content=content)


@pytest.mark.parametrize("accept", [None, "application/json", "*/*"])
def test_a_request_of_mcp_alone_is_answered_with_json(port: Port, accept: str | None) -> None:
    answer = call(port, **({} if accept is None else {"Accept": accept}))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    found = answer.json()
    assert found["id"] == "c1"
    assert "echo: Hello" in found["result"]["content"][-1]["text"]
    listed = call(port, "tools/list", {}).json()
    assert listed["result"]["tools"]
    unknown = call(port, "tools/call", {"name": "nothing", "arguments": {}})
    assert unknown.json()["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("tools/list", {"MCP-Protocol-Version": "2025-11-25", "Accept": "application/json"}, 406),
        ("initialize", {"Accept": "application/json"}, 406),
        ("tools/list", {"Accept": "text/html"}, 406),
        ("tools/list", {"Content-Type": "text/plain"}, None),
    ],
)
def test_what_is_no_request_alone_is_held_to_the_protocol(
    port: Port, method: str, headers: dict[str, str], status: int | None
) -> None:
    answer = call(port, method, {}, **headers)
    assert answer.status_code == status if status is not None else answer.status_code in (400, 415)


@pytest.mark.parametrize("method", ["resources/subscribe", "subscriptions/listen"])
def test_what_needs_a_session_or_a_stream_says_so(ports: Mapping[str, Port], method: str) -> None:
    answer = call(ports["gateway"], method, {"uri": "resource://agents/list"})
    assert answer.status_code == 400
    assert "needs a s" in answer.json()["error"]["message"]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_compressed_request(port: Port, streamed: bool) -> None:
    body = gzip.compress(json.dumps({**BODY, "stream": streamed}).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = port.ask("POST", CHAT, headers=headers, content=body)
    assert answer.status_code == 200
    assert "echo: Hello" in answer.text
    cut = port.ask("POST", CHAT, headers=headers, content=body[:-2])
    assert (cut.status_code, "no gzip" in error_in(cut)["message"]) == (400, True)
    large = port.ask("POST", CHAT, headers=headers, content=gzip.compress(bytes(64 * 1024 * 1024), 1))
    assert large.status_code == 413
    other = port.ask("POST", CHAT, headers={**headers, "Content-Encoding": "br"}, content=body)
    assert (other.status_code, other.headers["accept-encoding"]) == (415, "gzip")


def test_who_waits_to_be_told_to_go_on_is_told(port: Port) -> None:
    content = json.dumps(BODY).encode()
    address = httpx.URL(port.url)
    head = f"POST /v1{CHAT} HTTP/1.1\r\nHost: {address.host}\r\nContent-Type: application/json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in port.headers.items())
    head += f"Content-Length: {len(content)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    with socket.create_connection((address.host, address.port), timeout=60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(content)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"echo: Hello" in answer


@pytest.mark.parametrize(
    ("path", "allowed"),
    [(CHAT, "OPTIONS, POST"), ("/models", "GET, HEAD, OPTIONS"), (f"/models/{MODEL}", "GET, HEAD, OPTIONS")],
)
def test_which_methods_a_path_has_and_no_other_site_is_let_in(port: Port, path: str, allowed: str) -> None:
    answer = port.ask("OPTIONS", path)
    assert (answer.status_code, answer.headers["allow"]) == (204, allowed)
    wanted = {"Origin": "https://chat.example", "Access-Control-Request-Method": "POST"}
    preflight = port.ask("OPTIONS", path, headers=wanted)
    assert preflight.status_code == 403
    for each in (answer, preflight):
        assert not [name for name in each.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/models", f"/models/{MODEL}"])
def test_the_head_of_a_model_is_that_of_the_answer(port: Port, path: str) -> None:
    head, answer = port.ask("HEAD", path), port.ask("GET", path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == answer.headers["content-length"]


@pytest.mark.parametrize(
    "path", ["/responses", "/responses/resp_1", "/completions", "/embeddings", "/messages"]
)
def test_what_there_is_not_is_refused_with_what_to_use(port: Port, path: str) -> None:
    answer = port.ask("POST", path, json={"model": MODEL, "input": "Hello"})
    assert answer.status_code == 404
    said = error_in(answer)
    assert said["code"] == "not_found"
    assert said["message"].startswith(f"there is no POST /v1{path} here; ")
    assert ("own provider" if path == "/embeddings" else "/v1/chat/completions") in said["message"]


def test_a_token_of_an_issuer_may_be_long(ports: Mapping[str, Port]) -> None:
    for size, why in ((32 * 1024, "token"), (32 * 1024 + 1, "32768 that are allowed")):
        long = ports["gateway"]._replace(headers={"Authorization": f"Bearer {'a' * size}"})
        answer = long.ask("GET", "/models")
        assert answer.status_code == 401
        assert why in error_in(answer)["message"]
