"""A worker's HTTP face: which requests are refused, and with which words."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from support.worker.process import START_TIMEOUT, RunningWorker, run_worker
from support.worker.project import DEMO, call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ACCEPT = {"Accept": "application/json, text/event-stream"}
MODERN = ACCEPT | {"MCP-Protocol-Version": "2026-07-28"}
LEGACY = ACCEPT | {"MCP-Protocol-Version": "2025-11-25"}
ERAS = pytest.mark.parametrize("headers", [MODERN, LEGACY], ids=["modern", "legacy"])
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    with run_worker(project(tmp_path_factory.mktemp("project"))) as running:
        yield running


def post(worker: RunningWorker, content: Any, headers: dict[str, str], **more: str) -> httpx.Response:
    """POST to `/mcp`; `content` is JSON unless it is bytes already."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    all_headers = headers | {"Content-Type": "application/json"} | more
    return httpx.post(worker.url, content=body, headers=all_headers)


@ERAS
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD"])
def test_only_post(worker: RunningWorker, headers: dict[str, str], method: str) -> None:
    response = httpx.request(method, worker.url, headers=headers)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


@ERAS
def test_a_foreign_host_is_refused(worker: RunningWorker, headers: dict[str, str]) -> None:
    assert post(worker, PING, headers, Host="evil.example:80").status_code == 421
    assert post(worker, PING, headers, Host="127.0.0.1.evil.example:80").status_code == 421
    assert post(worker, PING, headers, Host=f"localhost:{worker.port}").status_code != 421
    assert post(worker, PING, headers, Host="192.0.2.7:80").status_code != 421


@ERAS
def test_a_page_elsewhere_is_refused(worker: RunningWorker, headers: dict[str, str]) -> None:
    assert post(worker, PING, headers, Origin="http://evil.example").status_code == 403
    assert post(worker, PING, headers, Origin="null").status_code == 403
    assert post(worker, PING, headers, Origin=f"http://localhost:{worker.port}").status_code != 403
    assert post(worker, PING, headers, Origin="https://127.0.0.1:8443").status_code != 403


@ERAS
@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b"[" * 100_000], ids=["open", "empty", "bytes", "deep"])
def test_what_is_no_json_is_a_parse_error(
    worker: RunningWorker, headers: dict[str, str], body: bytes
) -> None:
    response = post(worker, body, headers)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32700


@ERAS
@pytest.mark.parametrize("body", [b"3", b"[]", b'{"jsonrpc":"1.0","id":1}'])
def test_what_is_no_request_is_an_invalid_one(
    worker: RunningWorker, headers: dict[str, str], body: bytes
) -> None:
    response = post(worker, body, headers)
    assert response.status_code == 400
    assert response.json()["error"]["code"] in (-32600, -32602)


def test_an_unknown_method(worker: RunningWorker) -> None:
    request = {"jsonrpc": "2.0", "id": 5, "method": "no/such"}
    response = post(worker, request, LEGACY)
    assert "-32601" in response.text


@ERAS
def test_an_oversized_body_is_refused(worker: RunningWorker, headers: dict[str, str]) -> None:
    with socket.create_connection(("127.0.0.1", worker.port)) as connection:
        lines = [f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{worker.port}\r\nContent-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {33 * 1024 * 1024}", "", ""]
        connection.sendall("\r\n".join(lines).encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_of_many_megabytes_is_taken(worker: RunningWorker) -> None:
    rows = [{"role": "user", "content": "x" * 1_000_000}, {"role": "assistant", "content": "y"}] * 8
    assert text(call(worker.url, "auto", "demo", message="small", history=rows)) == "small"


def test_another_content_type_is_refused(worker: RunningWorker) -> None:
    response = httpx.post(worker.url, content=b"{}", headers=MODERN | {"Content-Type": "text/plain"})
    assert response.status_code == 400


def test_livez_asks_for_no_name_and_metrics_for_a_name_or_an_address(worker: RunningWorker) -> None:
    call(worker.url, "auto", "demo", message="x")
    elsewhere = {"Host": "prometheus-sees-me-as-this:9000"}
    assert httpx.get(f"{worker.origin}/livez", headers=elsewhere).text == "ok"
    refusal = httpx.get(f"{worker.origin}/metrics", headers=elsewhere)
    assert refusal.status_code == 421
    assert refusal.text == (
        "not reached by the name 'prometheus-sees-me-as-this:9000'; a name or address by which clients reach this "
        "deployment belongs to `hosts:` in agents.yaml\n"
    )
    for headers in ({}, {"Host": "192.0.2.7:9000"}):
        live = httpx.get(f"{worker.origin}/livez", headers=headers)
        assert (live.status_code, live.text) == (200, "ok")
        metrics = httpx.get(f"{worker.origin}/metrics", headers=headers)
        assert metrics.status_code == 200
        assert metrics.headers["content-type"].startswith("text/plain")
        assert 'pallas_send_message_total{agent="demo",outcome="ok"}' in metrics.text


def test_a_browser_learns_where_the_endpoint_is(worker: RunningWorker) -> None:
    answer = httpx.get(f"{worker.origin}/")
    assert (answer.status_code, answer.text) == (
        200,
        "MCP endpoint of demo: /mcp\nchat completions, with the model demo: /v1/chat/completions\n",
    )
    assert answer.headers["content-type"].startswith("text/plain")
    assert httpx.post(f"{worker.origin}/").status_code == 405


def test_an_unknown_path(worker: RunningWorker) -> None:
    assert httpx.get(f"{worker.origin}/nothing").status_code == 404


def test_a_drain_answers_what_is_in_flight_and_leaves_the_backlog(tmp_path: Path) -> None:
    slow = """
import asyncio
from fast_agent import FastAgent
from fast_agent.agents import McpAgent
from fast_agent.mcp.prompt import Prompt

fast = FastAgent("tests")

class Slow(McpAgent):
    async def generate(self, messages, request_params=None, tools=None):
        print("thinking", flush=True)
        with open("begun", "w"): pass
        while not __import__("os").path.exists("go"):
            await asyncio.sleep(0.01)
        return Prompt.assistant("late answer")

@fast.custom(Slow, name="demo")
async def demo(): ...
"""
    (project(tmp_path, agents=slow) / "agents" / "next.py").write_text(DEMO.format(servers=[]))
    with run_worker(tmp_path, stop_timeout=60.0) as running:
        answers: list[str] = []
        caller = threading.Thread(
            target=lambda: answers.append(text(call(running.url, "legacy", "demo", message="x")))
        )
        caller.start()
        while not (tmp_path / "begun").exists():
            caller.join(0.01)
        running.process.terminate()
        # Accepting stops at once: this connection must be left in the backlog, without an answer.
        late = http.client.HTTPConnection("127.0.0.1", running.port, timeout=START_TIMEOUT)
        running.wait_until(lambda it: any("draining" in record["message"] for record in it.records))
        late.request("GET", "/livez")
        (tmp_path / "go").touch()
        assert running.process.wait(START_TIMEOUT) == 0
        with run_worker(tmp_path, module="agents.next", listener=running.listener) as following:
            response = late.getresponse()
            assert (response.status, response.read()) == (200, b"ok")
            # The SDK's client lists the tools after a call, which the next worker answers.
            caller.join(START_TIMEOUT)
            assert answers == ["late answer"]
            assert following.stop() == 0
        late.close()
